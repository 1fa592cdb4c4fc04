"""What the built-in prompts are about."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topic:
    """Something to talk about, and three things that matter in it."""

    name: str
    parts: tuple[str, str, str]


SOFTWARE = (
    "a queue that two threads share", "a cache that forgets its oldest entry", "a parser for dates",
    "a rate limiter for an API", "a graph of build targets", "an index of log lines by hour",
    "a tree of folders and their sizes", "a table of prices by currency", "a spell checker",
    "a planner of train connections", "a simulation of a lift", "a store of user sessions",
    "a counter of words in a stream", "a matcher for file names", "a scheduler of backups",
    "a diff of two configuration files", "a pool of database connections", "a Sudoku solver",
    "a compressor for sensor readings", "a router for support tickets", "a chess clock",
    "a calendar with recurring events", "an inventory of spare parts", "a water tank model",
    "a lock that several machines share", "a feed of news by region", "a checker of passwords",
    "a merge of sorted mailing lists", "a ring buffer for audio frames", "a scanner of receipts",
    "a ledger with two sides", "a search over song titles", "a thermostat with a night mode",
    "a ranking of players by strength", "a splitter of long videos", "a map of parking spaces",
    "a reader of tide tables", "a splitter of shared bills", "a grid of seats in a theatre",
    "a translator of units", "a log of chess openings", "a watcher of changed folders",
    "a sampler of a very long stream", "a store of versions of a text", "an auction of hidden bids",
    "a pager for search results", "a bus timetable for one city", "a filter for spam",
    "a model of traffic at one crossing", "an outbox that never loses a message",
    "a catalogue of plants", "a mixer of paint colours", "a recorder of sleep phases",
    "a loader of large tables", "a picker of warehouse routes", "a voting booth",
    "a retry of failed payments", "a mirror of a remote folder", "a table of league results",
    "a generator of crosswords", "a timer for several kitchens", "a bridge between two chat rooms",
    "a packer of delivery vans", "a register of library loans", "a smoother of noisy positions",
    "a tracker of habits", "an alarm for cold rooms", "a wallet with several currencies",
    "a planner of hospital shifts", "a guard for a public form", "a tally of energy by appliance",
    "a tool that renames photos", "a draw for a tournament", "a finder of nearby stops",
    "a cleaner of address lists", "a pipeline of image thumbnails", "a monitor of river levels",
    "one screen shared among rooms", "a lexer for a small language", "a clock that is never late",
)  # fmt: skip
"""Things to build. None of their words asks for a program or for a proof by itself."""

_EVERYDAY = """
a sourdough starter: the flour, the warmth of the kitchen, the daily feeding
a bicycle chain: the oil, the tension, the wear of the links
a vegetable garden: the soil, the order of sowing, the watering at dusk
a night train: the timetable, the sleeping car, the change of locomotives
a public library: the reading room, the catalogue, the lending desk
a lighthouse: the lamp, the lens, the keeper's log
a mountain hut: the stove, the water tank, the guest book
a string quartet: the first violin, the rehearsal, the choice of pieces
a pinhole camera: the box, the tiny hole, the long exposure
a wooden sailing boat: the keel, the sails, the varnish in spring
a beehive: the queen, the combs, the honey harvest
a farmers' market: the stalls, the seasons, the early hours
a village fire brigade: the pump, the hoses, the weekly drill
a chess club: the clocks, the notation, the evening league
a tea ceremony: the kettle, the bowls, the silence
a marathon: the long runs, the shoes, the last ten kilometres
a wood-fired oven: the bricks, the embers, the damp cloth
a tide pool: the low water, the anemones, the sheltered rocks
a community choir: the parts, the warm-up, the summer concert
a weather station: the thermometer, the rain gauge, the shaded box
a pottery studio: the clay, the wheel, the kiln
a ski lift: the cable, the chairs, the wind limit
a museum of clocks: the pendulums, the workshop, the noon chimes
a rooftop terrace: the drainage, the planters, the view
a school newspaper: the editors, the deadlines, the printing
a hot air balloon: the envelope, the burner, the calm morning
a cheese cellar: the humidity, the turning, the rind
a radio play: the voices, the sounds, the pauses
a canal lock: the gates, the sluices, the waiting boats
a second-hand bookshop: the shelves, the prices, the regular guests
a dog school: the leash, the rewards, the patience of the owner
a city tram: the rails, the overhead wire, the bell
a puppet theatre: the strings, the curtain, the narrator
a herb spiral: the stones, the sunny side, the small pond
a planetarium: the dome, the projector, the quiet music
a first aid course: the bandages, the recovery position, the emergency call
a coffee roastery: the green beans, the drum, the cooling tray
a street festival: the permits, the stages, the clean-up
a bird hide: the binoculars, the reeds, the patience
a repair café: the tools, the volunteers, the broken toasters
a family tree: the letters, the church books, the old photographs
a swimming lesson: the breathing, the kick, the shallow end
a greenhouse: the glass, the vents, the winter heating
a ferry crossing: the ramp, the tide, the car deck
a jazz trio: the bass, the brushes, the solos
a stamp collection: the albums, the tweezers, the watermarks
a vineyard: the pruning, the slope, the day of the harvest
a wind turbine: the blades, the gearbox, the brake
a kindergarten: the mornings, the songs, the sand pit
a mosaic: the tiles, the mortar, the pattern
a bakery: the night shift, the ovens, the queue at seven
a climbing wall: the holds, the ropes, the partner check
a town archive: the boxes, the index cards, the reading lamp
a wedding speech: the opening, the anecdote, the toast
a fish ladder: the steps, the current, the spring migration
a model railway: the tracks, the signals, the painted hills
a lending library of tools: the drills, the deposits, the opening hours
a printing press: the type, the ink, the paper
a moonlit hike: the route, the lamps, the last bus
a language exchange: the partners, the topics, the corrections
a silent film: the gestures, the titles, the piano
a flood barrier: the gates, the forecasts, the drills
a picnic by the river: the basket, the shade, the wasps
a knitting pattern: the gauge, the yarn, the sleeves
a rowing crew: the stroke, the cox, the cold mornings
a desert garden: the gravel, the cacti, the rare rain
a barber shop: the chairs, the razors, the gossip
a solar oven: the mirrors, the black pot, the midday sun
a city marching band: the drums, the uniforms, the parade route
a compost heap: the layers, the air, the worms
a telescope: the mirror, the mount, the dark sky
a carpenter's bench: the vice, the planes, the shavings
a harbour pilot: the charts, the currents, the radio
a quiz night: the rounds, the teams, the tie-break
an ice rink: the cooling pipes, the resurfacing, the skates
an orchard: the grafting, the ladders, the cider press
an old stone bridge: the arches, the mortar, the floods
an open-air cinema: the screen, the blankets, the clouds
an allotment: the shed, the neighbours, the waiting list
an evening course in drawing: the charcoal, the model, the critique
"""


def everyday() -> list[Topic]:
    """Return things that people chat about."""
    topics = []
    for line in _EVERYDAY.strip().splitlines():
        name, _, parts = line.partition(": ")
        first, second, third = parts.split(", ")
        topics.append(Topic(name, (first, second, third)))
    return topics
