"""Serves prices, or asks all servers for one: quotes.py URL serve EURUSD=1.0842, quotes.py URL ask EURUSD."""

import asyncio
import sys

from hopring import ALL, Request, connect


async def main(url: str, verb: str, *words: str) -> None:
    async with connect(url) as session:
        if verb == "serve":
            prices = dict(word.split("=") for word in words)

            def price(request: Request) -> bytes:
                return prices[request.data.decode()].encode()  # A KeyError becomes RequestFailed at the caller.

            async with session.serve("quotes", price):
                print("ready", flush=True)
                await asyncio.Event().wait()
        for word in words:
            for reply in await session.request("quotes", word.encode(), wait=ALL, timeout_seconds=5.0):
                print(reply.server, reply.data.decode())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
