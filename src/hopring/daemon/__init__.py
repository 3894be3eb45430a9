"""The drivers: epoll loop, timer wheel, sockets, clock."""
