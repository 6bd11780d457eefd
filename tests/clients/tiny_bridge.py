"""A network of one person for slidge: Ann, who repeats what she reads, and reports messages that
the user has supposedly written elsewhere.
"""

from slidge import BaseGateway, BaseSession, FormField, LegacyContact


class Gateway(BaseGateway):
    COMPONENT_NAME = "A network of one person"
    COMPONENT_TYPE = "tiny"
    REGISTRATION_FIELDS = [FormField(var="username", label="Name", required=True)]

    async def validate(self, user_jid, registration_form):
        return None


class Contact(LegacyContact):
    async def on_message(self, message):
        if message.body == "elsewhere":
            self.send_text("written on my phone", carbon=True)
        else:
            self.send_text(f"echo of {message.body}")


class Session(BaseSession):
    async def login(self):
        ann = await self.contacts.by_legacy_id("ann")
        ann.name, ann.is_friend = "Ann", True
        await ann.add_to_roster()
        ann.online()
        return "Hello"
