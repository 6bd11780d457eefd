// Asks the bot of `examples/Bot.java` for the time, in private and in a room, and exits with 0 if it tells.

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

import org.jivesoftware.smack.chat2.ChatManager;
import org.jivesoftware.smack.tcp.XMPPTCPConnection;
import org.jivesoftware.smack.tcp.XMPPTCPConnectionConfiguration;
import org.jivesoftware.smackx.muc.MultiUserChatManager;
import org.jxmpp.jid.impl.JidCreate;
import org.jxmpp.jid.parts.Resourcepart;

public class AskBot {
    public static void main(String[] arguments) throws Exception {
        var account = JidCreate.entityBareFrom(arguments[0]);
        var bot = JidCreate.entityBareFrom(arguments[1]);
        var room = JidCreate.entityBareFrom(arguments[2]);
        var terms = XMPPTCPConnectionConfiguration.builder()
            .setUsernameAndPassword(account.getLocalpart().toString(), System.getenv("PASSWORD"))
            .setXmppDomain(account.asDomainBareJid()).setHost(System.getenv("HOST"));
        var connection = new XMPPTCPConnection(terms.build());
        connection.connect().login();

        var told = new CompletableFuture<String>();
        ChatManager.getInstanceFor(connection).addIncomingListener((from, message, chat) -> told.complete(message.getBody()));
        ChatManager.getInstanceFor(connection).chatWith(bot).send("what time is it?");
        isTime(told.get(30, TimeUnit.SECONDS));

        var toldAll = new CompletableFuture<String>();
        var chat = MultiUserChatManager.getInstanceFor(connection).getMultiUserChat(room);
        chat.addMessageListener(message -> {
            if (message.getBody() != null && message.getBody().startsWith("alice: ")) {
                toldAll.complete(message.getBody().substring("alice: ".length()));
            }
        });
        chat.join(Resourcepart.from("alice"));
        chat.sendMessage("clock, what time is it?");
        isTime(toldAll.get(30, TimeUnit.SECONDS));
        connection.disconnect();
        System.exit(0);
    }

    static void isTime(String text) {
        if (!text.matches("\\d\\d:\\d\\d UTC")) {
            throw new AssertionError(text);
        }
    }
}
