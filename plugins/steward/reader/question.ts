import { Names, requestsIn, type Named, type NamedNode, type World } from './entities.js'
import { whenOf, type When } from './when.js'
import { contentOf, countedText, wordsOf } from './words.js'
import type { Turn } from '../types.js'

/** The kind of a question; `what` if unknown. */
export type Kind = 'what' | 'why' | 'how' | 'fit' | 'safe' | 'when' | 'count' | 'compare' | 'hello'

/** A subject that is no model or node, with the tool that knows it and the codes of its facts. */
export interface Topic { readonly name: string, readonly tool: string | null, readonly codes: RegExp }

export interface Asked {
  readonly kind: Kind
  readonly models: readonly string[]
  readonly nodes: readonly NamedNode[]
  readonly id: string | null
  readonly when: When | null
  readonly topics: readonly Topic[]
  /** The plugin whose feature the question mentions. */
  readonly feature: string | null
  /** Whether the question says that something does not work as it should. */
  readonly complains: boolean
  /** Whether it asks if something is so: "is node2 up?". */
  readonly doubts: boolean
  /** Path of a setting, and error reason, that the question names. */
  readonly setting: string | null
  readonly error: string | null
  /** Significant words, to compare with findings. */
  readonly words: ReadonlySet<string>
  /** Interpretations of ambiguous words, one sentence each. */
  readonly read: readonly string[]
  /** The question in normalised words, with MODEL, NODE, ID and TIME for what was recognised. */
  readonly counted: string
  readonly text: string
}

/** Limits on what is read: characters of a question, number of earlier questions. */
const READ_MOST = 4000
const TURNS_MOST = 6
/** A question of at most this many words may refer to the earlier conversation. */
const SHORT = 12

const has = (words: string): RegExp => new RegExp(`(?:^| )(?:${words})(?= |$)`)

/** Words by which a kind is recognised; the first that matches counts. Words are normalised (`words.ts`). */
const KINDS: readonly (readonly [Kind, RegExp])[] = [
  ['hello', new RegExp('^(?:hello|thanks|who are you|what are you|can you mend|help|' +
    'what (?:can|do|could) (?:you|i ask).*)(?: \\w+)?$')],
  ['why', /^why(?= |$)/],
  ['compare', has('compare|comparison|versus|vs|differs?')],
  ['safe', has('safe(?:ly)?(?! to up)|fine to|survive|tolerate|single point|maintenance|impact|' +
    'without (?:NODE|master|the master)|' +
    '(?:if|when|suppose) (?:i |we |the |a )?(?:NODE|master|one|node|it).*(?:die|down|fail|happen)?|' +
    '(?:can|may|could|should) (?:i|we) (?:\\w+ )?(?:die|down|take|unplug|maintain|update).*NODE|' +
    'NODE die what.*')],
  ['fit', has('fit|(?:can|could|may|would|will) (?:\\w+ ){1,2}?(?:run|running|place|hold|host|take|' +
    'serve) .*(?:MODEL|NODE|here)|' +
    'enough (?:memory|disk|room|power).*|(?:room|memory|space|place) for|big enough|too (?:big|large)|' +
    'able to run|much (?:memory|disk|room) .*need|MODEL .*possible')],
  ['how', has('how (?:do|can|should|would|to|must|does one)|explain (?:what|how|a|the)|what (?:do|' +
    'is) .* explain|what (?:is|are) (?:a|an|the difference)|' +
    '(?:which|what|the) command|tutorial|documentation|docs|manual|help me|where (?:do|can|should) (?:i|' +
    'we)|(?<!. )(?:can|may) (?:i|we)(?! see)|safe to up\\w+|' +
    'i (?:want|need|would like) to|what (?:do|does) .* (?:do|stand for|for)')],
  ['when', has('(?:since|for how) .*when|since when|how long|when (?:do(?:es)?|did|wa?s|has|is|were|wurde)')],
  ['why', has('why')],
  ['count', has('how (?:many|much|often|big|full|fast|quick|far|good)|(?:number|amount) of')]
]

/** Topics: name, tool or `-`, words of questions, and parts of the codes of facts. */
const TOPICS = String.raw`
master cluster_now master|quorum|sessions?|term|votes?|elections? master|quorum|session
nodes cluster_now (?:many|which|what|list|all|my|the|other|see|not) (?:\w+ )?(?:node|members?)|
 members?|where is everybody node
memory node memory|gpu machine|memory
disk disks disk|enospc|full|(?:gb|gib|gigabytes?) (?:free|left)|room disk|room|event_log
store disks stores? store|second_store|staging
downloads downloads down-?loa?d\w*|downlods?|pull(?:s|ed|ing)?|cop(?:y|ied|ies)|stag(?:e|ed|ing)|
 hub|hash|fetch\w* download|files|hub|staging|store_
running running running|run(?! out)|instances?|placed?|placing|ps|serving|schedul\w+|pending|(?:which|what|
 list|all|many) model running|runner|place|model_|wait|instance|drain|fit
slow slow slow|fast|faster|speed|quick\w*|queue|wait|waits|waiting|seconds|overloaded busy|late|lag|
 slow|loop|durations|overloaded|time_spent
access tokens access token|grant|access|device|clock
clock - clocks?|ntp|the times? (?:in|of|on) clock
settings settings setting|[a-z]+_?[a-z]+\.[a-z_]+ setting|restart_needed|config|second_store
version - versions?|updat\w+|upgrad\w+|releases? version
plugins plugins plugin plugin
logs logs log log
request last_failure request|fail request|session_changed|instance_lost|task|failed|shutting
network cluster_now network|link|partition\w*|connect\w*|reach|each other|split partition|link|
 address|discovery|unstable
names - (?:same|listed|name) .*(?:name|twice)|twice name
drain - drain\w*|accepts? drain
relay - relay relay
happened events happen|change|history|timeline|news|did|TIME|flaky|often|(?:delet|evict|reinstat)ed|who die .
`.replaceAll('\n ', '').trim().split('\n').map((line) => {
    const [, name, tool, words, codes] = /^(\S+) (\S+) (.*) (\S+)$/.exec(line)!
    return { topic: { name: name!, tool: tool === '-' ? null : tool!, codes: new RegExp(codes!) },
      words: has(words!) }
  })

/** Words for the features of each plugin, which may be missing because the plugin is off. */
const FEATURES: readonly (readonly [plugin: string, words: RegExp])[] = [
  ['event-log', /\bevents?\b|\bevent[- ]log\b/], ['logs', /\blogs?\b/], ['tracing', /\btrac(?:es?|ing)\b/],
  ['diagnostics', /\bcaptures?\b|\bdiagnostics\b/], ['placement', /\bplac(?:ed?|ing|ement)\b/],
  ['staging', /\bpull(?:ed|ing|s)?\b|\bdownlo?ads?\b|\bstores?\b|\bstag(?:e|ing)\b/],
  ['capabilities-tts', /\bspe(?:ech|ak)\b|\bspoken\b|\bsvc say\b|\btts\b|\baudio\b/],
  ['capabilities-stt', /\btranscri(?:be|pt)|\bsvc listen\b|\bstt\b/],
  ['chat', /\bchat(?:s|ting)?\b|\bcompletions?\b/]
]

const COMPLAINTS = has('why|not|down|fail|wrong|slow|stuck|nothing|never|empty|flaky|drops?|refus\\w+|' +
  'strange\\w*|pending|die|weird|[a-z]+_[a-z_]+')
const POINTS = has('it|its|that|this|there|they|them|same|those|and|also|then|what about|how about|other|' +
  'else|again')

/** Reads a question in its conversation. Pure. */
export function understand (text: string, thread: readonly Turn[], world: World): Asked {
  const names = new Names(world)
  const before = thread.slice(-2 * TURNS_MOST).reduce<Asked | null>((last, turn) => {
    const now = readText(turn.text.slice(0, 1000).split('\n')[0]!, world, names)
    if (turn.role === 'user') return joined(now, last)
    // The answer's first sentence may name what the next question is about.
    return last === null || named(last) ? last
      : { ...last, models: now.models.slice(0, 1), nodes: now.nodes.slice(0, 1) }
  }, null)
  return joined(readText(text.slice(0, READ_MOST).replace(/\p{Cc}+/gu, ' '), world, names), before)
}

const named = ({ models, nodes, id }: Asked): boolean => models.length + nodes.length > 0 || id !== null

/** Completes a short question from the one before: "and node2?", "since when?", "why?". */
function joined (own: Asked, before: Asked | null): Asked {
  const short = own.counted.split(' ').length <= SHORT
  const alone = !POINTS.test(own.counted) && (named(own) || own.topics.length > 0)
  if (before === null || !short || alone || own.kind === 'hello') return own
  const bare = own.topics.length === 0 && own.kind === 'what'
  const subjects = named(own) ? own : { ...own, models: before.models, nodes: before.nodes, id: before.id }
  return {
    ...subjects, kind: bare ? before.kind : own.kind, when: own.when ?? (bare ? before.when : null),
    topics: own.topics.length > 0 ? own.topics : before.topics, complains: own.complains || before.complains
  }
}

function readText (text: string, world: World, names: Names): Asked {
  const words = wordsOf(text)
  const taken = new Set<number>()
  const take = <T extends { at: readonly number[] }>(found: readonly T[]): T[] => {
    const free = found.filter(({ at }) => !at.some((i) => taken.has(i)))
    for (const { at } of free) for (const i of at) taken.add(i)
    return free
  }
  const models = take(names.modelsIn(words))
  const nodes = take(names.nodesIn(words))
  const ids = take(requestsIn(words, taken))
  const marks = new Map([[models, ' MODEL '], [nodes, ' NODE '], [ids, ' ID ']].flatMap(([found, mark]) =>
    (found as Named<unknown>[])
      .flatMap(({ at }) => at.map((i): [number, string] => [i, i === at[0] ? String(mark) : '']))))
  const masked = words.reduceRight((rest, { start, end }, i) =>
    marks.has(i) ? `${rest.slice(0, start)}${marks.get(i)!}${rest.slice(end)}` : rest, lower(text))
  const when = whenOf(masked, world)
  const counted = countedText(when === null ? masked : timed(masked, when))
  const kind = KINDS.find(([, cue]) => cue.test(counted))?.[0] ?? 'what'
  const pointed = nodes.length > 0 ? [] : pointedAt(counted, kind, world)
  const loose = models.length > 0 ? [] : names.looseIn(masked)
  const read = models.flatMap(({ value, others }) => others.length === 0 ? []
    : [`The name was read as ${value}; it could also be ${others.slice(0, 3).join(', ')}.`])
  return {
    kind, when, read, counted, text: text.trim(), id: ids[0]?.value ?? null,
    models: [...new Set([...models.map(({ value }) => value), ...loose])].slice(0, 3),
    nodes: [...nodes.map(({ value }) => value), ...pointed].slice(0, 3),
    topics: TOPICS.filter(({ words }) => words.test(counted)).map(({ topic }) => topic).slice(0, 3),
    feature: FEATURES.find(([, words]) => words.test(masked))?.[0] ?? null,
    complains: COMPLAINTS.test(counted), doubts: /^(?:is|are|do|did|has|have|am) /.test(counted),
    words: contentOf(counted),
    setting: /\b[a-z][a-z_]*(?:\.[a-z][a-z_]*)+\b/.exec(masked.replace('svc.yaml', ''))?.[0] ?? null,
    error: /\b[a-z]+(?:_[a-z]+)+\b/.exec(masked)?.[0] ?? null
  }
}

/** Converts to lower case, so that only placeholders such as MODEL have capitals. */
const lower = (text: string): string => [...text].map((char) => {
  const low = char.toLowerCase()
  return low.length === char.length ? low : char
}).join('')

/** Replaces the words that name a time with a placeholder. */
function timed (text: string, when: When): string {
  const rest = when.said.reduce((known, said) => known.replace(said, ' TIME '), text)
  return rest === text ? `${text} TIME` : rest
}

/** The node that "if the master dies", "this node" and "my third machine" mean. */
function pointedAt (counted: string, kind: Kind, { master, local, nodes }: World): NamedNode[] {
  const meant = /\bthis node\b/.test(counted) ? local : kind === 'safe' && /\bmaster\b/.test(counted) ? master
    : null
  const nth = ['first', 'second', 'third', 'fourth', 'fifth'].findIndex((word) =>
    new RegExp(`\\b${word} node\\b`).test(counted))
  return nodes.filter(({ nodeId, name }) => nodeId === meant || (nth >= 0 && name.endsWith(String(nth + 1))))
}
