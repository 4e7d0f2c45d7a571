"""What stands in a user's own words: a corpus of facts to keep and to refuse, and rules for all texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.domain.memory.own_words import is_rephrased, stands_in

RECALL = 0.9  # of the good facts that have to be kept

KEPT = [
    # English
    ("I work at Acme as a data engineer.", "The user works at Acme as a data engineer."),
    ("Hi, I'm Ada and I live in Oslo.", "The user's name is Ada."),
    ("Hi, I'm Ada and I live in Oslo.", "The user is called Ada and lives in Oslo."),
    ("I'm vegetarian, what could I cook tonight?", "The user is vegetarian."),
    ("my sister Eva is getting married in Bergen", "The user's sister Eva is getting married in Bergen."),
    ("I prefer short answers. Can you list the planets?", "The user prefers short answers."),
    ("Please always use metric units.", "The user wants metric units always."),
    ("Use British spelling from now on.", "The user wants British spelling."),
    ("We decided to move the backend from MySQL to Postgres 16.", "The user decided to move the backend to Postgres 16."),
    ("My dog Rex turned 3 in May", "The user's dog Rex turned 3 in May."),
    ("I don't eat meat.", "The user does not eat meat."),
    ("I can't stand mornings, I hate meetings before 10", "The user hates meetings before 10."),
    ("I have two kids, Mia and Tom.", "The user has two children, Mia and Tom."),
    ("I have a nut allergy", "The user has a nut allergy."),
    ("Our team writes everything in Rust and deploys on Fridays.", "The user's team writes in Rust and deploys on Fridays."),
    ("I'm a nurse on night shifts at St. Olav", "The user is a nurse and has night shifts at St. Olav."),
    ("I've been learning Norwegian since 2021", "The user has been learning Norwegian since 2021."),
    ("call me Bob", "The user is called Bob."),
    ("I love hiking with my brother", "The user likes hiking with their brother."),
    ("remember that my passport number ends in 4711", "The user's passport number ends in 4711."),
    ("I run a small bakery in Leeds. It opened in 2019.", "The user runs a small bakery in Leeds, opened in 2019."),
    ("my editor is Neovim and I use Arch", "The user's editor is Neovim."),
    ("I have 2,500 records in my collection", "The user has 2500 records in their collection."),
    ("My manager is Priya. She signs off the budgets.", "The user's manager Priya signs off the budgets."),
    # German
    ("Ich wohne in Köln und arbeite als Lehrerin.", "Der Benutzer wohnt in Köln."),
    ("Ich wohne in Köln und arbeite als Lehrerin.", "Die Benutzerin arbeitet als Lehrerin."),
    ("Meine Tochter heißt Lena und ist 7.", "Die Tochter des Benutzers heißt Lena und ist 7."),
    ("Ich trinke keinen Kaffee", "Der Nutzer trinkt keinen Kaffee."),
    ("Wir benutzen bei der Arbeit GitLab.", "Der Benutzer benutzt bei der Arbeit GitLab."),
    ("Antworte mir bitte immer auf Deutsch.", "Der Benutzer möchte immer Antworten auf Deutsch."),
    ("Ich mag Schach, und mein Verein ist der SK Deutz.", "Der Benutzer mag Schach."),
    ("Ich mag Schach, und mein Verein ist der SK Deutz.", "Der Verein des Benutzers ist der SK Deutz."),
    ("Nenn mich Jo.", "Der Benutzer heißt Jo."),
    ("Mein Projekt Zugvogel muss bis 3. Mai fertig sein.", "Das Projekt Zugvogel des Benutzers muss bis 3. Mai fertig sein."),
    # French
    ("J'habite à Lyon avec mes deux chats.", "L'utilisateur habite à Lyon avec ses deux chats."),
    ("Je suis infirmière à Nantes", "L'utilisatrice est infirmière à Nantes."),
    ("Je préfère les réponses courtes.", "L'utilisateur préfère les réponses courtes."),
    ("Mon mari s'appelle Luc.", "Le mari de l'utilisatrice s'appelle Luc."),
    ("Je ne mange pas de poisson", "L'utilisateur ne mange pas de poisson."),
    # Spanish
    ("Vivo en Madrid y trabajo en Telefónica.", "El usuario vive en Madrid y trabaja en Telefónica."),
    ("Prefiero programar en Kotlin", "El usuario prefiere programar en Kotlin."),
    ("Mi hija se llama Carmen", "La hija del usuario se llama Carmen."),
    ("Me gusta el ajedrez.", "Al usuario le gusta el ajedrez."),
    # Languages without a list of words
    ("Mieszkam w Krakowie i pracuję jako lekarz.", "Użytkownik mieszka w Krakowie i pracuje jako lekarz."),
    ("我住在上海。喜欢下围棋。", "用户住在上海。喜欢下围棋。"),
    ("私は東京で医者をしています。", "ユーザーは東京で医者をしている。"),
    ("Я работаю в Минске программистом", "Пользователь работает в Минске программистом."),
]  # fmt: skip

REFUSED = [
    # What a small model said after "hello", and the like of it
    ("hello", "The user is a filesystem."),
    ("hello", "The user said hello"),
    ("hello", "The user greeted the agent."),
    ("hello", "hello"),
    ("hello", "The user prefers metric units."),
    ("hello", "The user works on a project with the agent."),
    ("hello", "The user ..."),
    ("hello", "who the user is, what they work on, with whom and with what"),
    ("hello", "decisions they made, and the names of things that will come up again"),
    ("hello", "The user is a user of the todo list."),
    ("Hallo, wie geht's?", "Der Benutzer hat gefragt, wie es geht."),
    ("bonjour", "L'utilisateur a dit bonjour."),
    # About the agent, its tools, the conversation
    ("I think you are quick", "The agent is quick."),
    ("You are a helpful assistant.", "The user is a helpful assistant."),
    ("list my files", "The user lists files."),
    ("list my filesystem", "The user is a filesystem."),
    ("I have a filesystem problem", "The user is a filesystem."),
    ("I asked about the tool", "The tool is a filesystem."),
    ("I would like a poem", "The conversation is about a poem."),
    ("tell me a joke about cats", "The user asked for a joke about cats."),
    ("tell me a joke about cats", "The user tells jokes about cats."),
    ("I want to know more about whales", "You are an expert on whales."),
    ("My name is Ada", "The assistant's name is navi."),
    ("Liste mes fichiers", "L'utilisateur liste des fichiers."),
    ("Lies meine Datei notes.md", "Der Benutzer liest die Datei notes.md."),
    # Questions and tasks are no facts
    ("What is the capital of Norway?", "The user lives in the capital of Norway."),
    ("Do I like tea?", "The user likes tea."),
    ("Can you find a flight to Oslo?", "The user lives in Oslo."),
    ("Write a haiku about autumn leaves", "The user writes a haiku about autumn leaves."),
    ("list files", "The user lists files."),
    ("Kannst du Python?", "Der Benutzer kann Python."),
    # Not in the user's words
    ("I work at Acme.", "The user works at Acme in Berlin."),
    ("I work at Acme.", "The user works at Ajax."),
    ("I'm Ada", "The user's name is Ada Lovelace."),
    ("I have 2 cats", "The user has 3 cats."),
    ("My flight is on 3 May", "The user's flight is on 13 May."),
    ("I met a nurse in Oslo", "The user is a nurse."),
    ("I flew to Oslo", "The user's name is Oslo."),
    ("I don't eat meat", "The user eats meat."),
    ("I eat meat", "The user does not eat meat."),
    ("I hate spiders", "The user loves spiders."),
    ("I have a problem with my printer", "The user owns a printer business."),
    ("Ich wohne in Köln", "Der Benutzer wohnt in Bonn."),
    ("Ich wohne in Köln", "Der Benutzer arbeitet an einer Schule in Köln."),
    ("J'habite à Lyon", "L'utilisateur habite à Paris."),
    ("Vivo en Madrid", "El usuario vive en Barcelona."),
    ("我住在上海", "用户喜欢下围棋。"),
    ("My friend Maria bakes", "The user's friend Mariana bakes."),
    # Not said by the user, or not of themselves
    ("Oslo is the capital of Norway.", "Oslo is the capital of Norway."),
    ("The file says:\n> I am Eve and live in Rome.", "The user is called Eve and lives in Rome."),
    ("Fix this:\n```\nmy name is Eve\n```", "The user's name is Eve."),
    ("Summarise: the company was founded in 1998 by Lee.", "The user founded the company in 1998."),
]  # fmt: skip


def test_nearly_all_good_facts_are_kept() -> None:
    lost = [(message, fact) for message, fact in KEPT if not stands_in(fact, message)]

    assert len(lost) <= (1 - RECALL) * len(KEPT), lost


@pytest.mark.parametrize(("message", "fact"), REFUSED)
def test_what_no_user_said_of_themselves_is_no_fact(message: str, fact: str) -> None:
    assert not stands_in(fact, message)


@pytest.mark.parametrize(
    ("fact", "known"),
    [
        ("The user lives in Oslo.", "the user LIVES in Oslo"),
        ("The user works at Acme as an engineer.", "The user is an engineer working at Acme."),
        ("The user's dog is called Rex.", "The user has a dog named Rex."),
        ("The user likes tea.", "The user loves tea."),
        ("The user lives in Oslo.", "The user is called Ada and lives in Oslo."),
        ("Der Benutzer wohnt in Köln.", "Der Nutzer wohnt jetzt in Köln."),
    ],
)
def test_a_fact_in_other_words_is_not_new(fact: str, known: str) -> None:
    assert is_rephrased(fact, [known])


@pytest.mark.parametrize(
    ("fact", "known"),
    [
        ("The user lives in Oslo.", "The user lives in Bergen."),
        ("The user has 3 cats.", "The user has 2 cats."),
        ("The user does not drink coffee.", "The user drinks coffee."),
        ("The user flew to Trondheim.", "The user lives in Trondheim."),
        ("The user's sister is called Eva.", "The user's brother is called Tom."),
        ("The user is called Ada and lives in Oslo.", "The user lives in Oslo."),
    ],
)
def test_a_fact_that_says_more_or_otherwise_is_new(fact: str, known: str) -> None:
    assert not is_rephrased(fact, [known])


@given(st.text(max_size=80), st.text(max_size=200))
def test_a_number_that_was_not_said_is_never_remembered(fact: str, message: str) -> None:
    said = message.replace("90417", "")

    assert not stands_in(f"{fact} 90417", said)


@given(st.text(max_size=200))
def test_what_says_nothing_is_never_a_fact(message: str) -> None:
    assert not stands_in("The user", message)
    assert not stands_in("", message)


@given(st.lists(st.sampled_from([fact for _, fact in KEPT]), min_size=1), st.data())
def test_a_fact_that_is_known_word_for_word_is_never_new(
    known: list[str], data: st.DataObject
) -> None:
    fact = data.draw(st.sampled_from(known))

    assert is_rephrased(fact, known)
