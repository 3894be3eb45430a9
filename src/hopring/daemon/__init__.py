"""The daemon: event loop, sockets, engines, clients, admin channel and process. All that meets the kernel."""
