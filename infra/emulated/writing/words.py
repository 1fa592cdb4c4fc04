"""The words that the emulated model knows, by their part in a sentence."""

import random

from infra.emulated.writing.frames import Words

_NOUNS = """
account action address advance agent agreement amount anchor angle answer archive area argument
array article aspect attempt average axis balance band barrier base basin basket batch beam
bearing bell belt bench block board boat bolt border bottle bottom bound bowl branch bridge bucket
budget buffer building bundle button cabin cable cache candle canvas capacity carbon card cargo
carrier case castle cause ceiling cell center chain chair chamber chance change channel chapter
charge chart circle circuit class clause client clock cloud cluster coast coil column command
comment company compass concept condition conduit constant contact content contract contrast
control copper copy corner cost counter country couple course cover crane credit crew crop cross
crown current curve customer cycle damage data deadline decade decision default defect degree
delay delta demand density depth design desk detail device dial diagram difference direction
discount disk distance district division document domain door draft drain drawer driver drum duty
edge editor effect effort element energy engine entry envelope equation error estimate event
evidence example exchange exit expert export extent fabric factor failure fault feature fence
fiber field figure filter finish flag flame flavor fleet flight floor flow folder force forest
fork form formula forum fraction frame frequency friction front fuel function furnace garden gate
gauge gear glass glove grade grain graph gravity grid ground group guard guess guide habit hammer
handle harbor hardware harvest header heat height hinge history hole horizon host hour house idea
image impact import impulse index industry input insight interval inventory iron island item joint
journal journey judge junction kernel kettle key kind kitchen label ladder lake lamp language
laser latch lattice layer layout leader leaf lens letter level lever library license lift light
limit line link liquid list load lobby local lock logic loop loss machine magnet mail manner map
margin mark market mask master matrix matter meadow measure medium member memory merchant message
metal meter method middle mineral minute mirror mixture mode model module moment monitor motion
motor mountain museum narrative needle network node noise north notice notion number object offer
office offset opening operator option orbit orchard order origin outcome outline output oven owner
oxygen package page paint panel paper parallel parcel parent part partner passage patch path
pattern pause payment peak pencil period permit phase phrase picture piece pillar pilot pipe pivot
place plain planet plant plate platform plug pocket point pole policy pond pool port portion
position post pressure price prior probe problem process product profile profit program project
proof property proposal protocol pulse pump purpose quality quantity quarter query question queue
quota radio radius rail rain random range rank rate ratio reader reason receipt recipe record
region relation relay release remark repair report request reserve residue resource response rest
result return review reward rhythm ring risk river road robot rocket roof room root rotor route
routine row rule runner saddle sail salt sample sand scale scene schedule scheme school science
scope score screen screw script season second section sector segment sensor sentence sequence
series server service session shadow shaft shape share sheet shelf shell shield shift ship shop
shore shoulder side sign signal silver site sketch slope slot snow socket soil solution sound
source space spark spectrum speed sphere spiral spring square stack staff stage stair station
status steam steel stem step stock stone storage store storm story strategy stream street string
strip structure student studio subject sugar suite summary supply support surface surplus switch
symbol system table target task team temperature template tenant tension term test text theme
theory thread threshold ticket tide timber title token tool topic torque total tower town track
trade traffic trail train transfer transit tray treaty tree trend trial triangle trigger truck
trust tube tunnel turbine turn type unit update upper usage user valley value valve variable
variant vector vehicle vein velocity vendor venue version vessel view village violin vision voice
volume voltage wagon wall warehouse water wave way weather wedge week weight wheel width wind
window wing winter wire witness wood worker workshop world yard yield zone
"""
_VERBS = """
absorb accept adjust advance affect align allow anchor apply arrange assign attach avoid balance
bend bind block borrow bound break bring build bundle carry cause change charge check choose clear
close collect combine compare compress confirm connect contain control convert copy correct count
cover cross cut decide define deliver describe detect divide double draw drive drop encode enter
equal erase exceed exclude expand explain export extend fasten feed fill filter find fit fix
follow force form gather generate give govern guard guide handle hide hold ignore imply import
improve include increase indicate inspect invert isolate join keep launch lead leave lift limit
link load lock lower maintain match measure merge mix move multiply narrow need notice observe
obtain offset open order outweigh overlap pass pause permit place plan predict preserve press
prevent print produce protect prove provide publish pull push raise reach read receive record
recover reduce reflect refresh regulate reject release remove repair repeat replace report request
require reset resolve restore return reveal reverse rotate round route sample save scale schedule
select send separate serve set shape share shift shorten show shrink simplify skip slow smooth
solve sort split start stop store strengthen subtract suggest support survive suspend switch
tighten track transfer transform trigger trim trust turn update verify visit weaken weigh widen
"""
_ADJECTIVES = """
able absolute abstract active actual adjacent annual apparent average awkward bare basic blank
bright broad brief broken busy calm careful central certain cheap clean clear close coarse cold
common compact complete complex concrete constant correct cubic curious current daily damp dark
dead deep dense different direct distant distinct double dry early eastern easy effective empty
equal even exact explicit external extra fair false familiar fast feasible final fine finite firm
first fixed flat flexible foreign formal former free frequent fresh full general gentle global
good gradual grand great gross half hard heavy hidden high hollow honest ideal idle implicit inner
integral internal joint key known large late latent lateral legal light likely linear liquid local
logical long loose low lower main major manual maximal mean medium mere mild minimal minor missing
mixed mobile modern modest mutual narrow native natural neat negative nested neutral noisy normal
northern novel numeric obvious odd ordinary optional outer parallel partial passive patient
perfect periodic plain plausible polar polite poor positive possible precise primary prime private
probable prompt proper public pure quick quiet random rapid rare ready real recent regular
relative reliable remote rigid robust rough round rural safe scarce second secret secure separate
serial severe shallow sharp short silent similar simple single slight slow small smooth soft solid
southern spare sparse special stable static steady steep strange strict strong sudden suitable
sure symmetric temporary tight tiny total typical uniform unique universal unlikely unusual upper
urban useful usual vague valid vertical viable visible vital warm weak western whole wide wild
wrong
"""


def _shuffled(words: str) -> tuple[str, ...]:
    """Order the words so that any of them in a row are a fair choice."""
    return tuple(random.Random(1).sample(listed := words.split(), len(listed)))


NOUN_TEXTS = _shuffled(_NOUNS)
VERB_TEXTS = _shuffled(_VERBS)
ADJECTIVE_TEXTS = _shuffled(_ADJECTIVES)


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "sh", "ch", "x")) else f"{word}s"


def _with_ing(verb: str) -> str:
    silent_e = verb.endswith("e") and not verb.endswith(("ee", "oe", "ye"))
    return f"{verb[:-1] if silent_e else verb}ing"


def _with_ly(adjective: str) -> str:
    if adjective.endswith("y"):
        return f"{adjective[:-1]}ily"
    return f"{adjective[:-1]}ly" if adjective.endswith("le") else f"{adjective}ly"


NOUNS = Words.of(NOUN_TEXTS)
VERBS = Words.of(VERB_TEXTS)
THIRD_VERBS = Words.of(map(_with_s, VERB_TEXTS))
ADJECTIVES = Words.of(ADJECTIVE_TEXTS)
NUMBERS = Words.of([str(number) for number in (*range(2, 40), 48, 50, 64, 75, 80, 90, 100, 120)])

_LONGEST_LETTERS = 7
"""A longer word takes two tokens, the second of which the first gives away."""


def _short(*words: str) -> Words:
    return Words.of(word for word in words if len(word) <= _LONGEST_LETTERS)


SHORT_NOUNS = _short(*NOUN_TEXTS, *map(_with_s, NOUN_TEXTS))
SHORT_VERBS = _short(*VERB_TEXTS, *map(_with_s, VERB_TEXTS), *map(_with_ing, VERB_TEXTS))
SHORT_ADJECTIVES = _short(*ADJECTIVE_TEXTS, *map(_with_ly, ADJECTIVE_TEXTS))
ANY_NUMBERS = Words.of(map(str, range(2, 1000)))
