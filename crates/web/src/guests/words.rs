//! The texts of the pages, in four languages.
//!
//! The table has every text in all languages, so none can be forgotten: the compiler requires all
//! four. A text may have `{}`, which is filled; it has no characters that are special in HTML.

use crate::language::Language;

impl Language {
    /// Returns the texts of the pages in this language.
    pub fn words(self) -> &'static Words {
        match self {
            Self::English => &ENGLISH,
            Self::German => &GERMAN,
            Self::French => &FRENCH,
            Self::Spanish => &SPANISH,
        }
    }
}

macro_rules! words {
    ($($name:ident: $english:literal, $german:literal, $french:literal, $spanish:literal;)*) => {
        /// The texts of the pages.
        #[derive(Debug)]
        pub(crate) struct Words {
            $(pub $name: &'static str,)*
        }

        const ENGLISH: Words = Words { $($name: $english,)* };
        const GERMAN: Words = Words { $($name: $german,)* };
        const FRENCH: Words = Words { $($name: $french,)* };
        const SPANISH: Words = Words { $($name: $spanish,)* };

        #[cfg(test)]
        const TEXTS: &[[&str; 4]] = &[$([$english, $german, $french, $spanish],)*];
    };
}

words! {
    skip: "Skip to the content", "Zum Inhalt springen", "Aller au contenu", "Ir al contenido";
    home_title: "Welcome to {}", "Willkommen bei {}", "Bienvenue sur {}", "Te damos la bienvenida a {}";
    home_text:
        "This is a chat server: a place for conversations with family, friends and colleagues, run by people you know.",
        "Das ist ein Chat-Server: ein Ort für Gespräche mit Familie, Freunden und Kollegen, betrieben von Menschen, die du kennst.",
        "Ceci est un serveur de messagerie : un lieu pour parler avec famille, amis et collègues, tenu par des gens que vous connaissez.",
        "Este es un servidor de chat: un lugar para hablar con familia, amistades y colegas, a cargo de gente que conoces.";
    home_account:
        "No account yet? Ask somebody who is here for an invitation.",
        "Noch kein Konto? Bitte jemanden, der schon hier ist, um eine Einladung.",
        "Pas encore de compte ? Demandez une invitation à quelqu’un qui est déjà ici.",
        "¿Aún no tienes cuenta? Pide una invitación a alguien que ya esté aquí.";
    open_chat: "Open the chat", "Chat öffnen", "Ouvrir la messagerie", "Abrir el chat";
    administration: "Administration", "Verwaltung", "Administration", "Administración";
    apps_title: "Apps for {}", "Apps für {}", "Applications pour {}", "Aplicaciones para {}";
    apps_text:
        "Install one of them and log in with your address and your password.",
        "Installiere eine davon und melde dich mit deiner Adresse und deinem Passwort an.",
        "Installez l’une d’elles et connectez-vous avec votre adresse et votre mot de passe.",
        "Instala una de ellas y entra con tu dirección y tu contraseña.";
    apps_others: "Apps for other devices", "Apps für andere Geräte", "Applications pour d’autres appareils", "Aplicaciones para otros dispositivos";
    invite_title: "Join {}", "Komm zu {}", "Rejoindre {}", "Únete a {}";
    invited_by: "{} invites you to chat here.", "{} lädt dich ein, hier mitzuschreiben.", "{} vous invite à discuter ici.", "{} te invita a chatear aquí.";
    invited: "You are invited to chat here.", "Du bist eingeladen, hier mitzuschreiben.", "Vous êtes invité(e) à discuter ici.", "Tienes una invitación para chatear aquí.";
    invited_more:
        "You will become each other’s contacts right away.",
        "Ihr seid dann gleich miteinander verbunden.",
        "Vous serez aussitôt en contact.",
        "Quedaréis en contacto enseguida.";
    choose: "Choose a name and a password", "Wähle einen Namen und ein Passwort", "Choisissez un nom et un mot de passe", "Elige un nombre y una contraseña";
    name: "Name", "Name", "Nom", "Nombre";
    name_rule:
        "Letters, digits, dots and hyphens, without spaces. Your address will be name@{}.",
        "Buchstaben, Ziffern, Punkte und Bindestriche, ohne Leerzeichen. Deine Adresse wird name@{} sein.",
        "Lettres, chiffres, points et tirets, sans espaces. Votre adresse sera nom@{}.",
        "Letras, cifras, puntos y guiones, sin espacios. Tu dirección será nombre@{}.";
    name_fixed: "Your address will be {}.", "Deine Adresse wird {} sein.", "Votre adresse sera {}.", "Tu dirección será {}.";
    password: "Password", "Passwort", "Mot de passe", "Contraseña";
    new_password: "New password", "Neues Passwort", "Nouveau mot de passe", "Contraseña nueva";
    password_again: "The same password again", "Dasselbe Passwort noch einmal", "Le même mot de passe encore une fois", "La misma contraseña otra vez";
    password_rule:
        "At least {} characters. A few words in a row are good and easy to remember.",
        "Mindestens {} Zeichen. Ein paar Wörter hintereinander sind gut und leicht zu merken.",
        "Au moins {} caractères. Quelques mots à la suite conviennent et se retiennent bien.",
        "Al menos {} caracteres. Unas cuantas palabras seguidas valen y se recuerdan bien.";
    show_passwords: "Show the passwords", "Passwörter anzeigen", "Afficher les mots de passe", "Mostrar las contraseñas";
    create: "Create my account", "Mein Konto anlegen", "Créer mon compte", "Crear mi cuenta";
    good_until: "This link works once, until", "Dieser Link gilt einmal, bis", "Ce lien est valable une fois, jusqu’au", "Este enlace vale una vez, hasta el";
    have_app: "Do you already have an XMPP app?", "Du hast schon eine App für XMPP?", "Vous avez déjà une application XMPP ?", "¿Ya tienes una aplicación de XMPP?";
    open_in_app: "Open the link in the app", "Link in der App öffnen", "Ouvrir le lien dans l’application", "Abrir el enlace en la aplicación";
    phone_title: "Continue on your phone", "Am Handy weitermachen", "Continuer sur votre téléphone", "Seguir en el móvil";
    phone_text: "Scan this code with its camera.", "Scanne diesen Code mit der Kamera.", "Scannez ce code avec son appareil photo.", "Escanea este código con la cámara.";
    qr_label: "QR code of the address {}", "QR-Code der Adresse {}", "Code QR de l’adresse {}", "Código QR de la dirección {}";
    faults: "Nothing has been done yet. Check the marked fields.", "Es ist noch nichts geschehen. Sieh dir die markierten Felder an.", "Rien n’est encore fait. Regardez les champs marqués.", "Todavía no se ha hecho nada. Mira los campos marcados.";
    name_impossible:
        "This name isn’t possible. Use letters, digits, dots and hyphens, without spaces.",
        "Dieser Name geht nicht. Nimm Buchstaben, Ziffern, Punkte und Bindestriche, ohne Leerzeichen.",
        "Ce nom n’est pas possible. Utilisez lettres, chiffres, points et tirets, sans espaces.",
        "Ese nombre no es posible. Usa letras, cifras, puntos y guiones, sin espacios.";
    name_mixes_scripts:
        "The name mixes letters of different alphabets.",
        "Der Name mischt Buchstaben verschiedener Alphabete.",
        "Le nom mêle des lettres d’alphabets différents.",
        "El nombre mezcla letras de alfabetos distintos.";
    name_taken: "This name is taken. Try another one.", "Dieser Name ist vergeben. Versuch einen anderen.", "Ce nom est pris. Essayez-en un autre.", "Ese nombre está ocupado. Prueba con otro.";
    name_only: "This invitation is for the name {} only.", "Diese Einladung ist nur für den Namen {}.", "Cette invitation n’est valable que pour le nom {}.", "Esta invitación es solo para el nombre {}.";
    password_short: "The password needs at least {} characters.", "Das Passwort braucht mindestens {} Zeichen.", "Le mot de passe doit avoir au moins {} caractères.", "La contraseña necesita al menos {} caracteres.";
    password_long: "The password may have {} characters at most.", "Das Passwort darf höchstens {} Zeichen haben.", "Le mot de passe peut avoir {} caractères au plus.", "La contraseña puede tener {} caracteres como máximo.";
    password_impossible: "The password contains characters that can’t be used.", "Das Passwort enthält Zeichen, die nicht erlaubt sind.", "Le mot de passe contient des caractères non autorisés.", "La contraseña tiene caracteres que no se pueden usar.";
    password_differs: "The two passwords are not the same.", "Die beiden Passwörter sind nicht gleich.", "Les deux mots de passe sont différents.", "Las dos contraseñas no son iguales.";
    spent_title: "This link is no longer valid", "Dieser Link gilt nicht mehr", "Ce lien n’est plus valable", "Este enlace ya no vale";
    spent_text:
        "It was already used, has expired, or is incomplete. Ask for a new one.",
        "Er wurde schon benutzt, seine Zeit ist um, oder ein Teil davon fehlt. Bitte um einen neuen.",
        "Il a déjà servi, son délai est passé, ou il en manque une partie. Demandez-en un nouveau.",
        "Ya se usó, se acabó su plazo o le falta una parte. Pide uno nuevo.";
    too_many_title: "Too many attempts", "Zu viele Versuche", "Trop de tentatives", "Demasiados intentos";
    too_many_text: "Try again in a few minutes.", "Versuch es in einigen Minuten noch einmal.", "Réessayez dans quelques minutes.", "Vuelve a intentarlo dentro de unos minutos.";
    failed_title: "The server can’t do this now", "Der Server kann das gerade nicht", "Le serveur ne peut pas le faire pour le moment", "El servidor no puede hacerlo ahora";
    failed_text: "Try again in a moment. Nothing is lost.", "Versuch es gleich noch einmal. Es ist nichts verloren.", "Réessayez dans un instant. Rien n’est perdu.", "Vuelve a intentarlo enseguida. No se ha perdido nada.";
    lost_title: "There is nothing here", "Hier ist nichts", "Il n’y a rien ici", "Aquí no hay nada";
    lost_text:
        "The address may be incomplete, or what it led to is gone: files that people share are kept for a limited time.",
        "Vielleicht fehlt ein Teil der Adresse, oder es gibt nicht mehr, wohin sie führte: Geteilte Dateien werden nur eine Zeit lang aufgehoben.",
        "Il manque peut-être une partie de l’adresse, ou ce qu’elle montrait n’existe plus : les fichiers partagés ne sont gardés qu’un temps.",
        "Puede que falte una parte de la dirección, o que ya no exista lo que mostraba: los ficheros compartidos se guardan un tiempo limitado.";
    no_chat_title: "The chat is not set up yet", "Der Chat ist noch nicht eingerichtet", "La messagerie n’est pas encore installée", "El chat aún no está instalado";
    no_chat_text:
        "You can use an app on this device instead. The operator of the server adds the chat page with the command “rookery web install”.",
        "Du kannst stattdessen eine App auf diesem Gerät nehmen. Der Betreiber des Servers fügt die Chat-Seite mit dem Befehl „rookery web install“ hinzu.",
        "Vous pouvez utiliser une application sur cet appareil. L’exploitant du serveur ajoute la page avec la commande « rookery web install ».",
        "Puedes usar una aplicación en este dispositivo. Quien administra el servidor añade la página con la orden «rookery web install».";
    to_home: "To the home page", "Zur ersten Seite", "Vers la première page", "A la primera página";
    reset_title: "Set a new password", "Ein neues Passwort setzen", "Choisir un nouveau mot de passe", "Poner una contraseña nueva";
    reset_for: "For the account {}.", "Für das Konto {}.", "Pour le compte {}.", "Para la cuenta {}.";
    reset_effect:
        "Your devices are logged out and need the new one.",
        "Deine Geräte werden abgemeldet und brauchen das neue.",
        "Vos appareils seront déconnectés et auront besoin du nouveau.",
        "Tus dispositivos se desconectarán y necesitarán la nueva.";
    set_password: "Set the password", "Passwort setzen", "Enregistrer le mot de passe", "Guardar la contraseña";
    ready_title: "Your account is ready", "Dein Konto ist bereit", "Votre compte est prêt", "Tu cuenta está lista";
    ready_text:
        "This is your address. You log in with it, and others write to you there.",
        "Das ist deine Adresse. Mit ihr meldest du dich an, und an sie schreiben dir andere.",
        "Voici votre adresse. Elle sert à vous connecter, et les autres vous y écrivent.",
        "Esta es tu dirección. Con ella entras, y a ella te escriben los demás.";
    set_title: "Your new password is set", "Dein neues Passwort gilt", "Votre nouveau mot de passe est enregistré", "Tu contraseña nueva ya vale";
    set_text:
        "Log in with it again on your devices.",
        "Melde dich auf deinen Geräten damit neu an.",
        "Reconnectez-vous avec lui sur vos appareils.",
        "Vuelve a entrar con ella en tus dispositivos.";
    address: "Address", "Adresse", "Adresse", "Dirección";
    account: "Your data and your account", "Deine Daten und dein Konto", "Vos données et votre compte", "Tus datos y tu cuenta";
    account_text:
        "Log in to get a copy of everything that this server keeps for you, or to delete your account.",
        "Melde dich an, um eine Kopie von allem zu bekommen, was dieser Server für dich aufbewahrt, oder um dein Konto zu löschen.",
        "Identifiez-vous pour obtenir une copie de tout ce que ce serveur garde pour vous, ou pour supprimer votre compte.",
        "Identifícate para obtener una copia de todo lo que este servidor guarda para ti, o para eliminar tu cuenta.";
    account_file:
        "The file has your messages, contacts and settings, in a form that other chat servers can read (XEP-0227). Pictures and other files aren’t in it.",
        "Die Datei enthält deine Nachrichten, Kontakte und Einstellungen in einer Form, die andere Chat-Server lesen können (XEP-0227). Bilder und andere Dateien sind nicht darin.",
        "Le fichier contient vos messages, contacts et réglages, sous une forme que d’autres serveurs savent lire (XEP-0227). Les images et autres fichiers n’y sont pas.",
        "El archivo tiene tus mensajes, contactos y ajustes, en una forma que otros servidores saben leer (XEP-0227). Las imágenes y demás archivos no están en él.";
    account_download: "Download my data", "Meine Daten herunterladen", "Télécharger mes données", "Descargar mis datos";
    account_remove: "Delete my account", "Mein Konto löschen", "Supprimer mon compte", "Eliminar mi cuenta";
    account_remove_text:
        "Your messages, contacts and settings are deleted at once. Nobody can bring them back.",
        "Deine Nachrichten, Kontakte und Einstellungen werden sofort gelöscht. Niemand kann sie zurückholen.",
        "Vos messages, contacts et réglages sont supprimés aussitôt. Personne ne pourra les récupérer.",
        "Tus mensajes, contactos y ajustes se eliminan al momento. Nadie puede recuperarlos.";
    account_sure: "Yes, I am sure.", "Ja, ich bin sicher.", "Oui, j’en suis sûr.", "Sí, quiero eliminarla.";
    account_unsure:
        "Nothing has been done yet. Say that you are sure, and enter your password again.",
        "Es ist noch nichts geschehen. Sag, dass du sicher bist, und gib dein Passwort noch einmal ein.",
        "Rien n’est encore fait. Dites que vous en êtes sûr, et saisissez à nouveau votre mot de passe.",
        "Todavía no se ha hecho nada. Di que quieres eliminarla y escribe de nuevo tu contraseña.";
    account_wrong: "The address or the password is wrong.", "Die Adresse oder das Passwort ist falsch.", "L’adresse ou le mot de passe est faux.", "La dirección o la contraseña no es correcta.";
    account_too_many:
        "You have downloaded your data several times. Try again in an hour.",
        "Du hast deine Daten schon mehrmals heruntergeladen. Versuch es in einer Stunde noch einmal.",
        "Vous avez déjà téléchargé vos données plusieurs fois. Réessayez dans une heure.",
        "Ya has descargado tus datos varias veces. Vuelve a intentarlo dentro de una hora.";
    account_not_removed:
        "Accounts of this domain can only be deleted by its administrators. Ask one of them.",
        "Konten dieser Domain können nur ihre Verwalter löschen. Bitte einen von ihnen darum.",
        "Les comptes de ce domaine ne peuvent être supprimés que par ses administrateurs. Demandez à l’un d’eux.",
        "Las cuentas de este dominio solo las pueden eliminar sus administradores. Pídeselo a uno de ellos.";
    account_removed_title: "Your account is deleted", "Dein Konto ist gelöscht", "Votre compte est supprimé", "Tu cuenta está eliminada";
    account_removed_text:
        "Your devices are logged out. Thank you for having been here.",
        "Deine Geräte sind abgemeldet. Danke, dass du hier warst.",
        "Vos appareils sont déconnectés. Merci d’avoir été parmi nous.",
        "Tus dispositivos se han desconectado. Gracias por haber estado aquí.";
    insecure_title: "This page needs an encrypted connection", "Diese Seite braucht eine verschlüsselte Verbindung", "Cette page exige une connexion chiffrée", "Esta página necesita una conexión cifrada";
    insecure_text: "Open it with https: in front of its address.", "Öffne sie mit https: vor ihrer Adresse.", "Ouvrez-la avec https: devant son adresse.", "Ábrela con https: delante de su dirección.";
    foreign: "This form was sent by another page.", "Dieses Formular kam von einer anderen Seite.", "Ce formulaire vient d’une autre page.", "Este formulario llegó desde otra página.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_filled_alike_and_have_no_html() {
        for texts in TEXTS {
            let gaps = |text: &str| text.matches("{}").count();
            for text in texts {
                assert!(!text.is_empty() && !text.contains(['<', '>', '&', '"']), "{text}");
                assert_eq!(gaps(text), gaps(texts[0]), "{text}");
            }
        }
    }
}
