"""JGroups with a sequencer: total order over TCP on loopback. Members are Java programs, which send too."""

import subprocess
from typing import ClassVar

from hopring.bench.harness.workload import WorkerTask
from hopring.bench.peers.peer import BUILT, SOURCES, PeerSystem
from hopring.cli.terminal import Failure

JAR = "/usr/share/java/jgroups.jar"
_CLASSES = BUILT / "jgroups"


class JGroups(PeerSystem):
    """A system without servers: members find each other."""

    name = "jgroups"
    members_send = True
    programs: ClassVar = {
        "java": "default-jdk-headless",
        "javac": "default-jdk-headless",
        JAR: "libjgroups-java",
    }
    promise = "total order, views; clients in Java"

    def start(self) -> None:
        """Compiles the Java program, if it has changed."""
        source = SOURCES / "Members.java"
        made = _CLASSES / "Members.class"
        if made.exists() and made.stat().st_mtime > source.stat().st_mtime:
            return
        command = ["javac", "-nowarn", "-cp", JAR, "-d", str(_CLASSES), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failure(f"jgroups: its member cannot be compiled:\n{done.stderr}")

    def command(self, task: WorkerTask) -> list[str]:
        """A member; probed ones do not wait to fill bundles, which would take 30 ms."""
        options = ["-Xmx512m", "-Djava.net.preferIPv4Stack=true", "-cp", f"{JAR}:{_CLASSES}"]
        words = [task.role, str(task.number), task.counters, task.group, str(task.probes)]
        return ["java", *options, "Members", *words, self._stack(bundling=task.role == "receive")]

    def _stack(self, bundling: bool) -> str:
        bundles = (
            "enable_bundling=true;max_bundle_size=64000;max_bundle_timeout=30"
            if bundling
            else "enable_bundling=false;enable_unicast_bundling=false"
        )
        threads = "thread_pool.queue_max_size=100000;thread_pool.max_threads=8;thread_pool.min_threads=2"
        sockets = f"bind_addr=127.0.0.1;bind_port={self.port};port_range=8;recv_buf_size=4M;send_buf_size=640K"
        layers = [
            f"TCP({sockets};loopback=true;enable_diagnostics=false;{bundles};{threads})",
            f"TCPPING(initial_hosts=127.0.0.1[{self.port}];port_range=4;timeout=2000;num_initial_members=3)",
            "MERGE2(min_interval=10000;max_interval=30000)",
            "FD_SOCK(bind_addr=127.0.0.1)",
            "VERIFY_SUSPECT(timeout=1500;bind_addr=127.0.0.1)",
            "pbcast.NAKACK(use_mcast_xmit=false;gc_lag=0;retransmit_timeout=300,600,1200;discard_delivered_msgs=true)",
            "UNICAST(timeout=300,600,1200)",
            "pbcast.STABLE(stability_delay=1000;desired_avg_gossip=50000;max_bytes=4M)",
            "pbcast.GMS(print_local_addr=false;join_timeout=3000;view_bundling=true)",
            "SEQUENCER",
            "UFC(max_credits=2M;min_threshold=0.4)",
            "MFC(max_credits=2M;min_threshold=0.4)",
            "FRAG2(frag_size=60000)",
        ]
        return ":".join(layers)
