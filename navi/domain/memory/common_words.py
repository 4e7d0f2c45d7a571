"""Common words of several languages, for the rules on what is worth remembering.

Everything stands as ``plain`` gives it: folded, without accents. A language that is not here is
judged by its own words alone: nothing is refused for want of a list.
"""

import unicodedata


def plain(text: str) -> str:
    """Text without case, accents and compatibility forms."""
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def _words(text: str) -> frozenset[str]:
    return frozenset(plain(text).split())


# By language: words that say nothing by themselves. They also tell which language a text is in.
FUNCTION_WORDS = {
    "en": _words(
        "a an the and or but so if then than that this these those there here to of in on at by for "
        "from with about into over under as is are am was were be been being do does did have has had "
        "having will would can could shall should may might must it its he she they them him her his "
        "their what which who whom whose when where why how all any some also just only very too still "
        "yet now up out off again more most own same such because while since before after until "
        "usually really currently always often sometimes mainly mostly i me my mine myself we us our "
        "ours you your yours"
    ),
    "de": _words(
        "der die das den dem des ein eine einen einem einer eines und oder aber so wenn dann als dass "
        "dies diese dieser dieses da hier zu zum zur von vom in im ins an am auf bei fur aus mit uber "
        "unter vor nach seit bis ist sind bin bist war waren sein gewesen habe hat haben hatte hatten "
        "wird werde werden wurde kann konnen soll sollen muss mussen es er sie ihn ihm ihr ihre was "
        "welche wer wem wann wo warum wie alle auch nur sehr noch jetzt schon gerne gern mal denn weil "
        "wahrend immer oft meist ich mich mir mein meine meinen meinem meiner wir uns unser unsere du "
        "dich dir dein deine sich"
    ),
    "fr": _words(
        "le la les l un une des du de d et ou mais donc si que qu qui quoi ce cet cette ces ca c il elle "
        "ils elles on y en a au aux dans sur sous par pour avec sans vers chez est sont suis es etes "
        "etait etre ai as avons ont avait avoir vais va peut peux dois doit son sa ses leur leurs "
        "quel quelle quand ou pourquoi comment tout tous toute aussi seulement tres encore maintenant "
        "deja plus moins car parce depuis avant apres toujours souvent je j me m moi mon ma mes nous "
        "notre nos tu te t toi ton ta tes vous votre vos se s"
    ),
    "es": _words(
        "el la los las lo un una unos unas y e o u pero si entonces que quien este esta estos estas ese "
        "esa eso aqui alli a al de del en con por para sin sobre desde hasta es son soy eres era estoy "
        "esta estan ser estar he ha han tengo tiene tener hay va voy puede puedo debe su sus cual cuando "
        "donde porque como todo todos tambien solo muy aun ahora ya mas menos siempre a menudo yo me mi "
        "mis nos nosotros nuestro nuestra tu te ti tus usted se le les"
    ),
    "it": _words(
        "il lo la gli un uno una e o ma se che chi questo questa quello a al alla di del della in nel "
        "nella con per su da dal dalla sono sei era essere ho hai ha hanno avere vado va posso puo cosa "
        "quando dove perche come tutto anche solo molto ancora adesso gia piu sempre spesso io mi me "
        "mio mia miei mie noi ci nostro nostra tu ti tuo tua si suo sua"
    ),
    "pt": _words(
        "o a os as um uma e ou mas se que quem este esta isto ao de do da dos das em no na nos nas com "
        "por para sem sobre desde ate sou es era estou esta ser estar tenho tem ter ha vou vai posso "
        "pode qual quando onde porque como tudo tambem so muito ainda agora ja mais sempre eu me mim "
        "meu minha meus minhas nosso nossa voce tu te seu sua"
    ),
    "nl": _words(
        "de het een en of maar als dan dat dit deze die er hier te van in op aan bij voor uit met over "
        "onder naar is zijn ben bent was waren heb hebt heeft hebben had word wordt kan kunnen zal moet "
        "hij zij ze hem haar wat wie wanneer waar waarom hoe alle ook alleen heel nog nu al graag altijd "
        "vaak ik mij me mijn wij we ons onze jij je jou jouw"
    ),
}
SILENT = frozenset[str]().union(*FUNCTION_WORDS.values()) | _words(
    # What is left of contractions, and of greetings and thanks.
    "s t m d ll re ve n hello hi hey thanks thank please yes no ok okay bye welcome hallo danke bitte ja "
    "nein tschuss bonjour merci salut oui non svp hola gracias si adios ciao grazie prego ola obrigado sim "
    "dag bedankt nee goodbye morning evening"
)

# What a fact calls its user.
USER = _words(
    "user users benutzer benutzerin benutzers nutzer nutzerin nutzers anwender anwenderin utilisateur "
    "utilisatrice usuario usuaria utente utilizador gebruiker anvandare anvandaren bruker brukeren bruger "
    "brugeren kayttaja kayttajan uzytkownik uzivatel пользователь пользователя користувач kullanici "
    "ユーザー ユーザ"
)
# The same in scripts without spaces, and where an ending sticks to it.
USER_RUNS = ("用户", "使用者", "利用者", "사용자는", "사용자", "ผู้ใช้", "ユーザー")

# What a fact may not be about.
AGENT = _words(
    "agent agents assistant navi bot chatbot ai ki ia llm model modell modele modelo tool tools werkzeug "
    "werkzeuge outil outils herramienta herramientas conversation conversations gesprach konversation "
    "conversacion session sitzung sesion chat message messages nachricht mensaje prompt system systeme "
    "sistema response answer antwort reponse respuesta memory assistent assistente asistente agente agentin"
)
# What a user does in any conversation: a fact that says so is about the conversation.
SPEAKS = _words(
    "said says saying asked asks asking mentioned mentions told tells greeted greets greeting requested "
    "requests wrote confirmed confirms thanked thanks sent typed responded responds replied replies "
    "stated states sagt sagte fragt fragte bat begrusst schreibt schrieb erwahnte grusst dit demande "
    "demanda salue mentionne ecrit dijo dice pregunto pregunta saluda menciono pidio pide"
)

# Who speaks of themselves, in languages that cannot leave it out: the subject by itself ...
I_SUBJECT = _words("i we ich wir je j nous ik wij yo nosotros nosotras io noi eu nos")
# ... and the forms that a request may have as well: "list my files", "tell me".
I_OBJECT = _words(
    "me my mine myself us our ours mich mir mein meine meinen meinem meiner uns unser unsere unseren "
    "moi mon ma mes notre nos m mij mijn ons onze mi mis nuestro nuestra mio mia miei mie nostro nostra "
    "meu minha meus minhas nosso nossa"
)
NAMING_VERBS = _words(
    "call name nenn nenne nennt appelle appelez llamame llama chiamami noem chame"
)
# Verbs of the first person where the pronoun is mostly left out.
DROPS_PRONOUN = frozenset({"es", "it", "pt"})
I_VERBS = _words(
    "soy estoy tengo he voy sono ho vado sou estou tenho vou somos estamos tenemos siamo abbiamo temos gusta "
    "gustan piace piacciono encanta encantan"
)
# How one asks for something for good.
STANDING = _words(
    "always never remember prefer henceforth immer nie niemals merk merke merken kunftig zukunft "
    "toujours jamais desormais retiens rappelle siempre nunca recuerda sempre mai ricorda altijd nooit "
    "onthoud lembre"
)
STANDING_PHRASES = (
    "from now on",
    "in future",
    "in the future",
    "ab jetzt",
    "ab sofort",
    "in zukunft",
    "a l avenir",
    "dorenavant",
    "a partir de",
    "de ahora en adelante",
    "d ora in poi",
)
NEGATIONS = _words(
    "not no never none neither nor without cannot hate hates dislike dislikes avoid avoids nicht kein "
    "keine keinen keinem keiner nie niemals ohne hasse hasst ne pas jamais aucun sans deteste nunca "
    "sin odio odia tampoco non mai senza niet geen nooit zonder nao sem не нет"
)
# Words for one thing that a retelling exchanges, and forms too far apart for a common beginning.
ALIKE = {
    form: group.split()[0]
    for group in (
        "like likes liked love loves enjoy enjoys adore adores prefer prefers preferred favourite favorite fond",
        "hate hates dislike dislikes detest detests",
        "live lives living lived based reside resides",
        "child children kid kids",
        "mag mogen liebe liebt",
        "wohne wohnt lebe lebt",
        "esse isst essen",
        "aime adore prefere",
        "vis vit habite",
        "bois boit",
        "gusta gustan encanta encantan",
        "vivo vive",
        "one 1 eins un",
        "two 2 zwei deux dos",
        "three 3 drei trois tres",
        "four 4 vier quatre cuatro",
        "five 5 funf cinq cinco",
        "six 6 sechs seis",
        "seven 7 sieben sept siete",
        "eight 8 acht huit ocho",
        "nine 9 neun neuf nueve",
        "ten 10 zehn dix diez",
        "twelve 12 zwolf douze doce",
    )
    for form in group.split()
}
# Light words of a fact that say who somebody is ...
IDENTIFIES = _words(
    "name named called calls works work working job profession heisst genannt arbeitet beruf nom appelle "
    "nomme travaille metier nombre llama trabaja profesion"
)
# ... and those of which one has to stand in the user's words then.
IDENTITY = IDENTIFIES | _words(
    "am m are as call nenn nenne here heisse bin sind als arbeite suis sommes appelle travail soy somos llamo "
    "trabajo como sono chiamo lavoro sou chamo trabalho ben heet werk"
)
COPULAS = _words("is ist est es e")
ARTICLES = _words("a an the ein eine der die das un une le la l una el")
# Light words of a fact that say how somebody stands to something.
LIGHT = _words(
    "want wants wanted use uses using wunscht will mochte veut souhaite quiere usa utilise"
)
