// A member of a JGroups cluster, in the roles of the bench.
//
//     java Members ROLE NUMBER BOARD GROUP PROBES STACK
//
// The counters are those of src/hopring/bench/harness/workload.py, slot by slot. A sender is a member and receives too.
// Messages begin with a mark of 32 bits, sequence * 8 + sender; the CRC-32 over all marks is the order.

import java.io.RandomAccessFile;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.util.concurrent.Semaphore;
import java.util.zip.CRC32;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.ReceiverAdapter;
import org.jgroups.View;

public class Members extends ReceiverAdapter {
    static final int STOP = 0, GO = 1, WINDOW = 2, SIZE = 3, SENDERS = 4, RECEIVERS = 5, BURST = 6;
    static final int SENT = 8, RECEIVED = 16, ORDER = 24, READY = 32, PLACES = 8, SLOTS = 64, WARM = 1000;
    static final VarHandle LONGS =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    final ByteBuffer board;
    final String role;
    final int number;
    final JChannel channel;
    final CRC32 order = new CRC32();
    final Semaphore cameBack = new Semaphore(0);
    long received;
    volatile int members;

    Members(String role, int number, String board, String stack) throws Exception {
        this.role = role;
        this.number = number;
        try (RandomAccessFile file = new RandomAccessFile(board, "rw")) {
            this.board = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, SLOTS * 8);
        }
        channel = new JChannel(stack);
        channel.setReceiver(this);
    }

    long get(int slot) {
        return (long) LONGS.getVolatile(board, slot * 8);
    }

    void set(int slot, long value) {
        LONGS.setVolatile(board, slot * 8, value);
    }

    @Override
    public void viewAccepted(View view) {
        members = view.size();
    }

    @Override
    public void receive(Message message) {
        byte[] buffer = message.getRawBuffer();
        int at = message.getOffset();
        if (role.equals("receive")) {
            order.update(buffer, at, 4);
            set(ORDER + number, order.getValue());
            set(RECEIVED + number, ++received);
        } else if (role.equals("answer") && number == 0 && buffer[at + 4] == '?') {
            put(body((byte) '!'));
        } else if (role.equals("ping") && buffer[at + 4] == '!') {
            cameBack.release();
        }
    }

    // Probes and answers have a letter behind the mark.
    byte[] body(byte letter) {
        byte[] body = new byte[(int) get(SIZE)];
        body[4] = letter;
        return body;
    }

    void put(byte[] body) {
        try {
            channel.send(new Message(null, null, body));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    void join(String group) throws Exception {
        channel.connect(group);
        long wanted = get(RECEIVERS) + (role.equals("ping") ? 1 : 0);
        while (members < wanted) Thread.sleep(10);
    }

    void ping(int probes) throws Exception {
        StringBuilder out = new StringBuilder();
        for (int at = -WARM; at < probes; at++) {
            long begin = System.nanoTime();
            put(body((byte) '?'));
            cameBack.acquire();
            if (at >= 0) out.append(at > 0 ? ", " : "").append((System.nanoTime() - begin) / 1000.0);
        }
        System.out.println("[" + out + "]");
        System.out.flush();
    }

    boolean hasRoom() {
        long slowest = get(RECEIVED), sent = 0;
        for (int at = 1; at < get(RECEIVERS); at++) slowest = Math.min(slowest, get(RECEIVED + at));
        for (int at = 0; at < PLACES; at++) sent += get(SENT + at);
        return sent - slowest + get(BURST) <= get(WINDOW);
    }

    void flood() throws Exception {
        int size = (int) get(SIZE);
        long sent = 0;
        while (get(STOP) == 0) {
            if (get(GO) == 0 || !hasRoom()) {
                Thread.sleep(0, 200_000);
                continue;
            }
            for (long goal = sent + get(BURST); sent < goal; sent++) {
                byte[] body = new byte[size];
                ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN).putInt((int) (sent * PLACES + number));
                put(body);
            }
            set(SENT + number, sent);
        }
    }

    public static void main(String[] words) throws Exception {
        Members member = new Members(words[0], Integer.parseInt(words[1]), words[2], words[5]);
        member.join(words[3]);
        if (member.role.equals("ping")) {
            member.ping(Integer.parseInt(words[4]));
            System.exit(0);
        }
        member.set(READY + member.number, 1);
        if (member.role.equals("receive") && member.number < member.get(SENDERS)) member.flood();
        Thread.sleep(Long.MAX_VALUE);
    }
}
