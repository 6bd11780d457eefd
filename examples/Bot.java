// A bot in Java, over Smack: an account that replies to messages, and speaks in rooms when it is
// spoken to.
//
//     rookery user add clock@localhost
//     PASSWORD=… java -cp 'jars/*' Bot.java clock@localhost garden@conference.localhost
//
// It tells the time. `jars` is a folder with Smack 4.5 (smack-tcp, smack-im, smack-extensions and
// smack-java11) and its dependencies; `mvn dependency:copy-dependencies` with tests/smack/pom.xml
// fills one. HOST and PORT are needed if the server can't be found by its domain; Java trusts the
// certificates in the file that -Djavax.net.ssl.trustStore names.

import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.concurrent.CountDownLatch;

import org.jivesoftware.smack.ReconnectionManager;
import org.jivesoftware.smack.chat2.ChatManager;
import org.jivesoftware.smack.tcp.XMPPTCPConnection;
import org.jivesoftware.smack.tcp.XMPPTCPConnectionConfiguration;
import org.jivesoftware.smackx.muc.MultiUserChat;
import org.jivesoftware.smackx.muc.MultiUserChatManager;
import org.jxmpp.jid.impl.JidCreate;
import org.jxmpp.jid.parts.Resourcepart;

public class Bot {
    static final Resourcepart NICK = Resourcepart.fromOrThrowUnchecked("clock");

    public static void main(String[] arguments) throws Exception {
        var account = JidCreate.entityBareFrom(arguments[0]);
        var terms = XMPPTCPConnectionConfiguration.builder()
            .setUsernameAndPassword(account.getLocalpart().toString(), System.getenv("PASSWORD"))
            .setXmppDomain(account.asDomainBareJid());
        if (System.getenv("HOST") != null) {
            terms.setHost(System.getenv("HOST")).setPort(Integer.parseInt(System.getenv().getOrDefault("PORT", "5222")));
        }
        var connection = new XMPPTCPConnection(terms.build());
        // Smack reconnects after a loss, and the bot enters its rooms again.
        ReconnectionManager.getInstanceFor(connection).enableAutomaticReconnection();
        ChatManager.getInstanceFor(connection).addIncomingListener((from, message, chat) -> {
            try {
                chat.send(now());
            } catch (Exception error) {
                System.err.println(error);
            }
        });
        connection.connect().login();
        for (int i = 1; i < arguments.length; i++) {
            enter(MultiUserChatManager.getInstanceFor(connection).getMultiUserChat(JidCreate.entityBareFrom(arguments[i])));
        }
        System.out.println(connection.getUser() + " is there");
        new CountDownLatch(1).await();
    }

    static void enter(MultiUserChat room) throws Exception {
        room.addMessageListener(message -> {
            var nick = message.getFrom().getResourceOrNull();
            // Messages from before the bot's arrival carry a delay (XEP-0203).
            var isNew = message.getExtensionElement("delay", "urn:xmpp:delay") == null;
            if (isNew && nick != null && !nick.equals(NICK) && message.getBody() != null && message.getBody().contains(NICK)) {
                try {
                    room.sendMessage(nick + ": " + now());
                } catch (Exception error) {
                    System.err.println(error);
                }
            }
        });
        var created = room.createOrJoin(NICK);
        if (created != null) {
            // The room is new: the bot owns it, and accepts its default configuration.
            created.makeInstant();
        }
    }

    static String now() {
        return LocalTime.now(ZoneOffset.UTC).format(DateTimeFormatter.ofPattern("HH:mm")) + " UTC";
    }
}
