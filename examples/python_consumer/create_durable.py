"""Make the durable consumer that somebody else may pull from: the facts of one owner, nothing else.

For an operator, with navi's own login; ``docs/nats.md`` has the permissions of who pulls.
"""

import argparse
import asyncio

import nats
from nats.js.api import AckPolicy, ConsumerConfig

ACK_SECONDS = 5


async def main(options: argparse.Namespace) -> None:
    """Make it on the stream of every partition, or find it there as it is."""
    client = await nats.connect(options.url)
    for number in range(options.partitions):
        stream = f"NAVI_{number}"
        partition = f"{number}." if options.partitions > 1 else ""
        config = ConsumerConfig(
            durable_name=options.durable,
            filter_subject=f"navi.events.{partition}{options.owner}.>",
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_SECONDS,
            max_ack_pending=1,  # keeps the order when something is delivered again
        )
        made = await client.jetstream().add_consumer(stream, config)
        print(f"{made.name} on {stream}: {made.config.filter_subject}")
    await client.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make a durable consumer for one owner's facts.")
    parser.add_argument("--url", required=True, help="of NATS, with navi's login")
    parser.add_argument("--owner", required=True, help="`local` without accounts")
    parser.add_argument("--durable", required=True, help="its name")
    parser.add_argument("--partitions", type=int, default=1, help="as in NAVI_LOG_PARTITIONS")
    asyncio.run(main(parser.parse_args()))
