"""A hopd that may open 64 files only, for tests: called as hopd is."""

import resource

from hopring.daemon.hopd import main

DESCRIPTORS = 64

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    main()
