"""An HTTP server on loopback, on a thread of its own, for as long as a ``with``."""

import threading
from http.server import ThreadingHTTPServer


class Quiet:
    """Beside a handler of requests: no line is written of any."""

    def log_message(self, *_):
        pass


class LoopbackServer(ThreadingHTTPServer):
    """``url`` is where it listens, without a path."""

    daemon_threads = True

    def __init__(self, handler, port=0, host="127.0.0.1"):
        super().__init__((host, port), handler)
        self.port = self.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def handle_error(self, *_):
        """Clients hang up, and are killed."""

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error):
        self.shutdown()
        super().__exit__(*error)
