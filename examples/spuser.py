"""A small version, in Python, of the user program that comes with Spread: sends typed lines and shows messages.

python examples/spuser.py -s 4803@localhost -u alice

j GROUP        join
l GROUP        leave
s GROUP TEXT   send TEXT, Agreed; GROUP may be several names separated by commas, or a private group
q              quit
"""

import sys
from argparse import ArgumentParser
from select import select

from hopring.compat import sp


def main() -> int:
    """Runs a session from connect to disconnect."""
    options = ArgumentParser()
    options.add_argument("-s", dest="spread_name", default="4803", metavar="PORT[@HOST]")
    options.add_argument("-u", dest="user", default="user")
    given = options.parse_args()
    ret, mbox, private_group = sp.SP_connect_timeout(given.spread_name, given.user, 0, 1, 5.0)
    if ret != sp.ACCEPT_SESSION:
        sp.SP_error(ret)
        return 1
    print(f"connected to {given.spread_name} with private group {private_group}", flush=True)
    # Unbuffered, so that select sees every line.
    with open(0, "rb", buffering=0, closefd=False) as keys:
        while True:
            ready, _, _ = select([keys.fileno(), mbox], [], [])
            ret = show(mbox) if mbox in ready else command(mbox, keys.readline().decode())
            if ret == sp.ILLEGAL_SESSION:
                return 0
            if ret < 0:
                sp.SP_error(ret)
            if ret in (sp.CONNECTION_CLOSED, sp.NET_ERROR_ON_SESSION):
                return 1


def command(mbox: int, line: str) -> int:
    """Carries out a typed command; the end of the input means quit."""
    if not line or line.split() == ["q"]:
        sp.SP_disconnect(mbox)
        return sp.ILLEGAL_SESSION
    match line.split(maxsplit=2):
        case ["j", group]:
            return sp.SP_join(mbox, group)
        case ["l", group]:
            return sp.SP_leave(mbox, group)
        case ["s", groups, text]:
            return sp.SP_multigroup_multicast(
                mbox, sp.AGREED_MESS, groups.split(","), 0, text.rstrip("\n").encode()
            )
    print("j GROUP, l GROUP, s GROUP TEXT or q", flush=True)
    return 0


def show(mbox: int) -> int:
    """Receives one message and prints it."""
    got = sp.SP_receive(mbox)
    if got.ret < 0:
        return got.ret
    if sp.Is_regular_mess(got.service_type):
        print(f"{got.sender} to {' '.join(got.groups)}: {got.mess.decode(errors='replace')}", flush=True)
    elif sp.Is_reg_memb_mess(got.service_type):
        print(f"group {got.sender} has {got.num_groups} members, I am number {got.mess_type}", flush=True)
        show_change(got)
    elif sp.Is_transition_mess(got.service_type):
        print(f"group {got.sender} is in transition", flush=True)
    elif sp.Is_self_leave(got.service_type):
        print(f"left group {got.sender}", flush=True)
    return got.ret


def show_change(got: sp.Received) -> None:
    """Prints the members that joined or left, or that came together after a change of network."""
    info = sp.SP_get_memb_info(got.mess, got.service_type)
    if info.ret < 0:
        sp.SP_error(info.ret)
    elif not sp.Is_caused_network_mess(got.service_type):
        how = "joined" if sp.Is_caused_join_mess(got.service_type) else "left"
        print(f"  {info.changed_member} {how}", flush=True)
    else:
        for one in sp.SP_get_vs_sets_info(got.mess).vs_sets:
            names = " ".join(sp.SP_get_vs_set_members(got.mess, one).member_names)
            print(f"  came together: {names}{' (mine)' if one == info.my_vs_set else ''}", flush=True)
    print(f"  now: {' '.join(got.groups)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
