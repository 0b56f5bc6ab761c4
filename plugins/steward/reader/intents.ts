export type Intent =
  | 'health' | 'why-model' | 'why-request' | 'running' | 'master' | 'happened' | 'then' | 'fit'
  | 'what-if' | 'node' | 'disk' | 'memory' | 'slow' | 'logs' | 'settings' | 'plugins' | 'access' | 'join'
  | 'help' | 'hello' | 'other' | 'feature' | 'error' | 'downloads'

/**
 * Evidence for each intent: a weight and a pattern of whole words. Words are normalised (`words.ts`), so
 * `answer` also stands for "reply" and "work"; MODEL, NODE, ID and TIME stand for recognised names and times.
 * An intent requires a match of its `needs`. If weights are equal, the first intent wins.
 */
const CUES = String.raw`
why-request
  6 ID
  3 request.*fail
  3 fail.*request
  2.5 last.*(request|fail)
  2 last fail
  3 what fail last
  1.5 my request
  1.5 request.*(down|wrong|die|not)
  1 why.*request
  2.5 what happen.*request
what-if needs (NODE|node|master|die|without|one)
  4 if.*(die|down|fail|gone|missing)
  2.5 what would happen|what will happen
  2.5 would happen|happen if
  4 (survive|tolerate|safe to|cope|afford)
  4 can (i|we) (die|down)
  4 may (i|we) (die|down)
  1.5 without (NODE|the master|master)
  3 what (breaks|die|down|fail).*(if|when|without)
  2 when NODE die|if NODE
  4 happen.*(if|when) (i|we|you|NODE|the)
  2 safely
  5 single point
  5 (can|may|could) (i|we) (take|bring|pull|send) NODE
  3 maintenance
  4 (if|when|suppose) (i |we )?(die )?NODE|when (i|we) die
  3 (die|loss) of|without NODE
  3.5 (can|may|should|could) (i|we) .*die.*NODE
  2 can NODE be
  2 impact|consequences?|consequence of
  4 what do (i|we) die|NODE die what then|what then
fit
  4 (can|could|may) (i|we|it|this|NODE|the cluster|cluster).*(run|running|place|host|node MODEL|hold|fit)
  3.5 fit
  4.5 much (memory|room|disk|ram).*MODEL.*need|need.*MODEL
  4 NODE (take|hold|run|carry|host) MODEL
  2.5 would .*run|will .*run
  3 enough (memory|room|disk|gpu|power)
  3 (room|disk|memory|capacity|space) for
  3 big enough|too (big|large)
  2 why.*not fit
  3.5 MODEL.*(possible|runnable|posible)|possible to (run|place)
  2 is there.*(room|memory|place)
  3 able to run|capable
  2 what would (it take|make)
then needs TIME
  -5 why
  4 look.*TIME|TIME.*look
  1 (was|were|did)
  2 was (what|who|MODEL|NODE|the|it|node|model)
  2.5 was.*(running|master|up)
  3 (state|picture|snapshot|view)
  3 who was
  3 what (was|were) .*(running|up|state)|what was (running|up)
  3 how (was|were)
  2.5 were.*(up|running|live)
  1.5 was.*(fine|answer|down|up)
  3 back then
  3 as it was
  3 (was|were) master.*TIME
happened
  -3 not happen
  3 happen
  3 change
  3.5 when (did|was|has)
  2 history|timeline|news?
  1 TIME
  1.5 what (be|was|is|went|did).*TIME
  3 went wrong.*TIME
  2.5 did (someone|anyone|somebody|anybody|who)
  2.5 who (die|change|placed|delete|started?|stopped)
  0.5 (any|something|anything).*TIME
  1 what did.*do
logs
  5 log
  3 output of
  2 what (does|did) .* print
  2 (last|latest) lines
slow
  8 how (is|are|fast|good) .*(link|network|connection).*NODE
  4 slow
  2.5 how (fast|quick)
  2.5 (fast|faster|speed|quick|quicker|quickly)
  1.5 how (long|fast)
  2 needs? \d+ seconds
  1 seconds
  1.5 wait|waits|waiting|queue
access
  4 access
  3 not allowed|not let me|locked out
join
  4 (only|just) (one|two|three|four|\d+) node
  4 reach each other
  3.5 network.*(between|NODE)|between NODE and NODE
  3 link
  4 join
  4 not.*into.*cluster
  1 (new|another|other|second|third|fourth) node.*not
  2 NODE not in|not in.*cluster
  3.5 not (appear|appearing|show|showing|see|listed|found).*(NODE|node)
  3.5 (NODE|node).*not (appear|appearing|show|showing|listed|visible|part)
  3.5 NODE.*not (in|part of|see|find).*cluster
  4 not (see|find|reach) (each other|one another|NODE)
  3 NODE.*not connect|not connect.*(NODE|cluster)
disk
  4 where is (the|my|our|a) store
  4 disk
  3 (gb|gigabytes?|tb|bytes).*(free|left)
  1 free.*left
  1 (free|full|left)
  3 room.*left|much room
downloads
  4 downloads?|downlods?|downloaded|downloading
  2.5 what.*(pulled|copied|fetched)
memory
  3.75 memory
  2 (most|free|more).*memory
  2.5 gpu
  0.5 (free|full|left|used|uses|much)
error
  3.5 [a-z]+(_[a-z]+)+
  2 fail [a-z]+(_[a-z]+)+
settings
  3 (which|what|who).*setting.*change
  3 (change|setting).*not (happen|change|apply)|setting.*not apply
  3 is .*\bsettings?\b.*fine
  4 setting
  2.5 [a-z]+_?[a-z]+\.[a-z_]+
  2.5 set to|value of
plugins
  4 plugin
help
  1 how (do|can|should) (i|we|one)
  4 how (do|can|would|should|could|to|must|does one)
  3 how (i|we|you) (do|can)
  3 explain
  4.75 what (is|are) (a|an|the difference)
  2 what (do|does) .*(do|stand for|for)
  2.5 what is .* for
  2.5 help me (to|with)
  2 (which|what|the) request (place|stop|show|start|do|add|list|delete|for)?
  6 commands?
  3.5 where (do|can|should) (i|we)
  2.5 tutorial|guide|manual|documentation|docs
  2 is it possible to
  3 difference between
  3 i (want|would like|need) to
master
  3.5 decide|decides
  3.5 master
  1 who.*master
  1.5 when.*master
  3.5 who.*command
  3 quorum|session|term|election|majority
  3.5 (which|what|how many|list|show)( me)?( the| all| my| our)* (node|members?)
  4 in charge
  3.5 who is (in charge|the boss|here|there)
  2 members?
  2.5 node.*(do we have|are there|are up|in (the|my|our) cluster|online)
running
  3 running
  2.5 what.*run
  3.5 (which|what|list|show|all).*model
  1 model.*NODE
  3 where.*MODEL
  5 which node.*(MODEL|run|has)
  2.5 instances?
  3 ps
  2 what (runs|is up)
  3 how many model
  2 NODE.*(run|running|doing)|(run|running) on NODE
  2 who.*(run|serving|running)
  1 doing
  2 what can i use
why-model needs MODEL
  5 (get|make|bring) MODEL.*(run|answer|running|up|here)
  3 became of|download|downloaded|pull|pulled|stuck|move|moved|go on
  1.25 MODEL
  3 not.*answer|answer.*not
  2 (down|fail|wrong|die|refuses?|stuck|nothing)
  1.5 why
  1.5 (fine|up|answer|health)
  1 not
  2.5 is MODEL (running|up|fine|answer)
  2.5 why.*not running
node needs NODE
  5 (get|bring) NODE back|NODE back
  1.25 NODE
  2 how is
  2 (up|down|fine|die|fail|wrong|health|answer|lost)
  1.5 why
  0.5 what
  3 not.*answer|answer.*not
health
  2.5 wrong
  6 (is|are) .*setting.*(right|fine|valid|correct)
  2 fine
  2.75 health
  4 clocks?|ntp
  3 how (do|does) .*(feel|do)
  6 the times (in|of)
  3 need.*die|need.*restarts?
  4 same name|twice
  3 (see|is) not other node|where is? everybody|wheres everybody
  3 network|partition
  2.5 gpu|backends?|card
  2.75 how (is|are|goes).*(it|cluster|things|we|all)
  1.75 (down|fail)
  1 cluster
  2.5 not.*answer|answer.*not
  0.75 why
  1 what is (wrong|down|die)
  1.5 all.*down
  2 what should i|what must i|to do
  1 (any|some|every)(thing|one)? (wrong|down|fail)
  2.25 mend
  1.25 die
  2 worr\w+|attention|how are (we|things)
  2 how is (life|everything)
hello
  5 (kind|sort|type)s? of (question|thing)s?|can i ask
  2.25 ^hello
  2.25 thanks
  5 who are you|what are you
  5 what can (you|i ask)
  4 ^(can you )?help( me)?( please)?$
  5 what do you (do|know)
  5 ^fine (TIME|morning|evening|day|afternoon)$
  5 what (may|should|could) i ask
`

/** Compiles a cue, which matches whole words only. */
const cueOf = (pattern: string): RegExp => new RegExp(`(?:^| )(?:${pattern})(?= |$)`)

interface Rule { intent: Intent, needs: RegExp | null, cues: { weight: number, cue: RegExp }[] }

const RULES: readonly Rule[] = CUES.trim().split(/\n(?! )/).map((text) => {
  const [head, ...lines] = text.split('\n')
  const [intent, needs] = head!.split(' needs ')
  return {
    intent: intent as Intent,
    needs: needs === undefined ? null : cueOf(needs),
    cues: lines.map((line) => {
      const [, weight, pattern] = /^ +(-?[\d.]+) (.*)$/.exec(line)!
      return { weight: Number(weight), cue: cueOf(pattern!) }
    })
  }
})

const LEAST = 2
/** Minimum lead over the next intent; below it the intent is a guess. */
const LEAD = 0.5

/** The intent with the greatest weight; `other` if no intent has enough. */
export function intentOf (counted: string): { intent: Intent, weight: number, sure: boolean } {
  const ranked = RULES.filter(({ needs }) => needs === null || needs.test(counted))
    .map(({ intent, cues }) => ({
      intent, weight: cues.reduce((sum, { weight, cue }) => cue.test(counted) ? sum + weight : sum, 0)
    }))
    .sort((a, b) => b.weight - a.weight)
  const [first, second] = ranked
  if (first === undefined || first.weight < LEAST) {
    return { intent: 'other', weight: first?.weight ?? 0, sure: false }
  }
  return { ...first, sure: first.weight - (second?.weight ?? 0) >= LEAD }
}

/** Lower-case words for the features of each plugin; a feature may be missing because its plugin is off. */
const TOPICS: readonly (readonly [plugin: string, words: RegExp])[] = [
  ['event-log', /\bevents?\b|\bevent[- ]log\b/],
  ['logs', /\blogs?\b|\blog (?:lines|server)\b/],
  ['tracing', /\btrac(?:es?|ing)\b/],
  ['diagnostics', /\bcaptures?\b|\bdiagnostics\b/],
  ['placement', /\bplaced?\b|\bplacing\b|\bplacement\b/],
  ['staging', /\bpull(?:ed|ing|s)?\b|\bdownlo?ads?\b|\bstores?\b|\bstag(?:e|ing)\b|\bcop(?:y|ied|ies)\b/],
  ['capabilities-tts', /\bspe(?:ech|ak)\b|\bspoken\b|\bsvc say\b|\btts\b|\baudio\b/],
  ['capabilities-stt', /\btranscri(?:be|pt)|\bsvc listen\b|\bstt\b/],
  ['chat', /\bchat(?:s|ting)?\b|\bcompletions?\b/]
]

export const topicOf = (low: string): string | null =>
  TOPICS.find(([, words]) => words.test(low))?.[0] ?? null
