"""What members keep beside their log: files, and bodies of parcels that wait."""
