"""The configuration: sites, daemons, links; TOML in, frozen values out."""
