//! Threads, the epoll driver, mailboxes: what drives streams and hub.
