import { plain, type Evidence, type Fact, type Finding } from '../../../kernel/cli/index.js'
import { diagnoses } from './plan.js'
import type { Answer, ToolCall } from '../types.js'
import type { World } from './entities.js'
import type { Understood } from './thread.js'

export interface Found { readonly call: ToolCall, readonly finding: Finding }

/** The reader's answer, without `voice` and `calls`, which describe how it was made. */
export type Worded = Omit<Answer, 'voice' | 'calls'>

/** A fact with its rank and tool call; `own` means that the first call or `why_request` found it. */
interface Ranked { readonly fact: Fact, readonly own: boolean, readonly rank: number, readonly call: number }

/** Limits on facts in an answer: for a diagnosis, and for a request for facts. */
const DIAGNOSIS_MOST = 8
const FACTS_MOST = 20
/** Limit on facts in a diagnosis that report no problem. */
const QUIET_MOST = 3

export const HISTORY = new Set(['last_failure', 'events', 'logs', 'cluster_then', 'help'])

/** Codes of faults that usually follow from another fault. */
const SYMPTOMS = new Set([
  'no_instance', 'waiting_for_node', 'not_placed', 'not_ready', 'model_waits', 'request_failed', 'partition',
  'degraded', 'unavailable', 'master_changed', 'not_live'
])

/** Codes of resolved or momentary faults, which matter only in answers about them. */
const NOTED = new Set(['runner_restarts', 'event_loop_lag', 'discovery_blocked'])

/** Codes of faults that can cause symptoms on any node or model. */
const EVERYWHERE = new Set(['no_quorum', 'no_master', 'disk_full', 'clock_skew', 'node_lost', 'memory_full'])

const LEVELS: Readonly<Record<Fact['level'], number>> = { fail: 300, warn: 200, info: 20, ok: 10 }

const isBad = ({ level }: Fact): boolean => level === 'fail' || level === 'warn'

const targetsOf = ({ model, node, id, error }: Understood): string[] =>
  [model, node?.name, node?.nodeId, id, error].filter((one) => one != null).map((one) => one.toLowerCase())

/**
 * Whether the fact is about one of the targets. A failed download names its model only in the fact's text.
 */
function isAbout ({ about, code, text }: Fact, targets: readonly string[]): boolean {
  if ([code, ...about].some((one) => targets.includes(one.toLowerCase()))) return true
  const low = text.toLowerCase()
  return code === 'download_failed' && targets.some((one) => one.includes('/') && low.includes(one))
}

/** The facts from all calls, most important first, without duplicates. */
function rankedOf (asked: Understood, found: readonly Found[], seeks: boolean): Ranked[] {
  const targets = targetsOf(asked)
  const well = found[0]?.finding.facts.some(isBad) === false && found[0].finding.facts.length > 0
  const ranked = found.flatMap(({ call, finding }, i) => finding.facts.map((fact, place): Ranked => {
    const own = i === 0 || call.tool === 'why_request'
    // If the first call found no problem, earlier downloads are past too.
    const past = HISTORY.has(call.tool) || (call.tool === 'downloads' && !own && well)
    const weighed = seeks ? weighedFor(asked, fact, { past, first: own && place === 0 }) : fact
    const rank = seeks ? rankOf(weighed, own, targets) : own ? 1000 : 0
    return { fact: clean(weighed), own, rank: rank - place / 100, call: i }
  }))
  const seen = new Map<string, number>()
  return ranked.sort((a, b) => b.rank - a.rank).filter(({ fact: { code, about, text }, call }) => {
    const key = `${code} ${about.length === 0 ? text : [...about].sort().join(' ')}`.toLowerCase()
    const before = seen.get(key) ?? call
    seen.set(key, before)
    return before === call
  })
}

/** Adjusts a fact's level to the question; past facts keep their remedy only if the question names them. */
function weighedFor (
  asked: Understood, fact: Fact, { past, first }: { past: boolean, first: boolean }
): Fact {
  const { intent, topic } = asked
  if (intent === 'feature' && topic !== null && keepsAway(fact, topic)) return { ...fact, level: 'fail' }
  if (intent === 'why-request' && past && first && fact.level !== 'ok') return { ...fact, level: 'fail' }
  if (past) {
    const remedy = isAbout(fact, targetsOf(asked)) ? fact.remedy : null
    return { ...fact, level: fact.level === 'ok' ? 'ok' : 'info', remedy }
  }
  const noted = fact.level === 'warn' && NOTED.has(fact.code) && intent !== 'slow'
  return noted ? { ...fact, level: 'info', remedy: null } : fact
}

/** Whether the fact explains why a plugin's feature is missing. */
const keepsAway = ({ code, about }: Fact, topic: string): boolean =>
  (code === 'plugin_off' && about.includes(topic)) || (code === 'store_not_configured' && topic === 'staging')

function rankOf (fact: Fact, own: boolean, targets: readonly string[]): number {
  const bad = isBad(fact)
  return LEVELS[fact.level] + (own && bad ? 150 : own ? 15 : 0) + (isAbout(fact, targets) ? 100 : 0) +
    (SYMPTOMS.has(fact.code) ? -40 : 40) + (EVERYWHERE.has(fact.code) && bad ? 60 : 0)
}

/** Removes control characters, because text from nodes, logs and cards reaches terminals and pages. */
function clean (fact: Fact): Fact {
  return {
    ...fact, text: plain(fact.text).trim(), about: fact.about.map(plain),
    evidence: fact.evidence.map((one) => JSON.parse(JSON.stringify(one), (_, value: unknown) =>
      typeof value === 'string' ? plain(value) : value) as Evidence),
    remedy: fact.remedy === null ? null : plain(fact.remedy).trim()
  }
}

/** The answer's first sentence if the first call found a fault that no other call can explain; else null. */
export function leadOf (asked: Understood, first: Found): string | null {
  if (asked.asks !== 'cause') return null
  if (!diagnoses(asked)) return null
  const [top] = rankedOf(asked, [first], true)
  const tells = top?.fact.level === 'fail' && !SYMPTOMS.has(top.fact.code) && !HISTORY.has(first.call.tool)
  return tells ? top.fact.text : null
}

export function answerOf (asked: Understood, found: readonly Found[], world: World): Worded {
  // For a question that was not understood, report any fault.
  const seeks = diagnoses(asked) || (asked.intent === 'other' && broken(found))
  const ranked = rankedOf(asked, found, seeks)
  const worded = seeks ? diagnosed(asked, found, ranked) : told(asked, ranked, { found, world })
  const unknown = [...new Set([...asked.read, ...found.flatMap(({ finding }) => finding.unknown)].map(plain))]
  const facts = worded.facts.map(({ fact }) => fact)
  const remedies = [...new Set(facts.flatMap(({ remedy }) => remedy ?? []))]
  const asks = asked.asks === 'remedy' && remedies[0] !== undefined
  return {
    diagnosis: asks ? remedies[0]! : worded.diagnosis,
    sure: asked.sure && worded.sure(unknown.length === 0), facts, evidence: evidenceOf(facts), remedies,
    unknown
  }
}

const broken = (found: readonly Found[]): boolean => found.some(({ call, finding }) =>
  call.tool === 'doctor' && finding.facts.some(({ level }) => level === 'fail'))

interface Part { diagnosis: string, facts: Ranked[], sure: (complete: boolean) => boolean }

function diagnosed (asked: Understood, found: readonly Found[], ranked: readonly Ranked[]): Part {
  const bad = ranked.filter(({ fact }) => isBad(fact))
  const quiet = ranked.filter(({ fact }) => !isBad(fact))
  const targets = targetsOf(asked)
  // Facts about other nodes or models that report no problem belong only in answers about the whole cluster.
  const near = quiet.filter(({ fact, own }) => own || fact.level === 'info' || isAbout(fact, targets))
  const some = (own: boolean): Ranked[] => near.filter((one) => one.own === own).slice(0, QUIET_MOST)
  const facts = [...bad, ...some(true), ...some(false)]
  const [top] = bad
  const whole = asked.intent === 'health' || near.length === 0
  if (top === undefined) return calm(asked, found, whole ? quiet : near)
  const own = quiet.find((one) => one.own)
  const concerns = top.own || isAbout(top.fact, targets) || targets.length === 0
  const cause = causeOf(top, bad)
  const mild = top.fact.level === 'warn' && asked.intent === 'health'
  return {
    diagnosis: cause !== undefined ? `${unstopped(top.fact.text)}: ${cause.fact.text}`
      : !concerns && own !== undefined ? `${unstopped(own.fact.text)}; elsewhere: ${top.fact.text}`
          : mild ? `Nothing is broken, but this will hurt: ${top.fact.text}` : top.fact.text,
    facts: [...new Set([top, ...cause === undefined ? [] : [cause], ...facts])].slice(0, DIAGNOSIS_MOST),
    sure: (complete) => (top.fact.level === 'fail' && !blind(found)) || complete
  }
}

/** Whether the first call has no facts because its reads failed. */
const blind = ([first]: readonly Found[]): boolean =>
  first?.finding.facts.length === 0 && first.finding.unknown.length > 0

/** Finds the cause of a symptom: a fault of the same node or model, or one with effects everywhere. */
function causeOf (top: Ranked, bad: readonly Ranked[]): Ranked | undefined {
  if (!SYMPTOMS.has(top.fact.code)) return undefined
  const names = top.fact.about.map((one) => one.toLowerCase())
  return bad.find((one) => one !== top && !SYMPTOMS.has(one.fact.code) &&
    (isAbout(one.fact, names) || (EVERYWHERE.has(one.fact.code) && one.fact.level === 'fail')))
}

/** The answer if no fault was found. */
function calm (asked: Understood, found: readonly Found[], quiet: Ranked[]): Part {
  const mine = quiet.filter((one) => one.own)
  const wanted = wantedIn(asked, mine)
  const own = wanted ?? mine[0]
  const facts = [...new Set([wanted ?? [], quiet].flat())].slice(0, DIAGNOSIS_MOST)
  if (asked.intent === 'health') {
    return {
      diagnosis: blind(found) || quiet.length === 0
        ? 'Nothing that is wrong could be seen, but not everything could be looked at.' : 'Nothing is wrong.',
      facts, sure: (complete) => complete && quiet.length > 0
    }
  }
  const subject = asked.model ?? asked.node?.name ?? asked.id ?? 'it'
  if (own !== undefined) return { diagnosis: own.fact.text, facts, sure: (complete) => complete }
  const next = facts[0]?.fact.text
  return {
    diagnosis: blind(found) ? `What is the matter with ${subject} could not be looked at.`
      : next ?? `Nothing is known about ${subject}.`,
    facts, sure: () => false
  }
}

/** Help for greetings and for questions that were not understood. */
const CAN = 'Ask what is wrong, why a model does not answer or a request failed, what is running, who is ' +
  'master, what happened around a time, whether a model fits, what happens if a node dies, or how ' +
  'something is done.'

const LISTS: ReadonlySet<Understood['intent']> =
  new Set(['running', 'disk', 'memory', 'plugins', 'then', 'master'])

/** The fact that answers the question, which need not be the first one that the tool returned. */
function wantedIn (asked: Understood, facts: readonly Ranked[]): Ranked | undefined {
  const codes = codesFor(asked)
  return facts.find(({ fact }) => codes.includes(fact.code))
}

function codesFor ({ intent, text }: Understood): readonly string[] {
  if (intent === 'node') return ['node_live']
  if (intent === 'memory') return ['machine']
  if (intent !== 'master') return []
  return /\b(?:nodes|members|many|machines)\b/i.test(text) ? ['nodes'] : ['no_quorum', 'no_master', 'master']
}

/** Facts to show before the requested ones: a disabled plugin, or current faults. */
function before (
  { intent, topic }: Understood, found: readonly Found[], ranked: readonly Ranked[]
): Ranked[] {
  const misses = intent !== 'plugins' && found[0]?.call.tool === 'plugins'
  const off = misses ? ranked.filter(({ fact }) => fact.code === 'plugin_off') : []
  const meant = off.filter(({ fact }) => topic !== null && fact.about.includes(topic))
  const broken = ranked.filter(({ fact, own }) => !own && fact.level === 'fail')
  return [...meant, ...off, ...intent === 'happened' ? broken : []]
}

function told (
  asked: Understood, ranked: readonly Ranked[], { found, world }: { found: readonly Found[], world: World }
): Part {
  const { intent, model, node } = asked
  const targets = targetsOf(asked)
  const about = ranked.filter(({ fact }) => isAbout(fact, targets))
  // In lists, facts about the named items come first; keep all others, in case a name was misread.
  const listed = [...new Set([...before(asked, found, ranked), ...LISTS.has(intent) ? about : [], ...ranked])]
  // From the other calls, keep only the facts that report a problem.
  const facts = listed.filter(({ own, fact }) => own || fact.level !== 'ok').slice(0, FACTS_MOST)
  const fixed = (diagnosis: string, sure: boolean): Part => ({ diagnosis, facts, sure: () => sure })
  if (intent === 'hello') return fixed(CAN, true)
  if (intent === 'fit' && model === null) return fixed('Which model? Ask again with its name.', false)
  if (intent === 'what-if' && node === null) {
    const names = world.nodes.map(({ name }) => plain(name)).join(', ')
    return fixed(`Which node? Ask again with its name${names === '' ? '' : `: ${names}`}.`, false)
  }
  const wanted = wantedIn(asked, facts)
  const worst = LISTS.has(intent) && targets.length === 0
    ? ['fail', 'warn'].flatMap((level) => facts.filter(({ fact }) => fact.level === level))[0]
    : undefined
  const first = (intent === 'memory' ? worst ?? wanted : wanted ?? worst) ?? facts[0]
  if (first === undefined) {
    const [why = 'Nothing could be found out about that.'] = found.flatMap(({ finding }) => finding.unknown)
    return fixed(intent === 'other' ? `The question was not understood. ${CAN}` : plain(why), false)
  }
  const ordered = [first, ...facts.filter((one) => one !== first)]
  return { diagnosis: first.fact.text, facts: ordered, sure: (complete) => complete && intent !== 'other' }
}

const unstopped = (text: string): string => text.replace(/(?<![.:;])[.:;]+$/, '')

function evidenceOf (facts: readonly Fact[]): Evidence[] {
  const all = facts.flatMap(({ evidence }) => evidence)
  return [...new Map(all.map((one) => [JSON.stringify(one), one])).values()]
}

/**
 * One more call that the findings require: `plugins` if the tool of the first call is missing, since its
 * plugin may be off; `why_request` for the newest failed request; else null.
 */
export function moreOf (
  asked: Understood, found: readonly Found[], has: (tool: string) => boolean
): ToolCall | null {
  const missing = found[0] !== undefined && !has(found[0].call.tool)
  if (missing && !diagnoses(asked)) return { tool: 'plugins', args: {} }
  const failure = found.find(({ call }) => call.tool === 'last_failure')
  if (asked.intent !== 'why-request' || asked.id !== null || failure === undefined) return null
  const ids = failure.finding.facts.flatMap(({ about, evidence }) =>
    [...evidence.flatMap((one) => one.kind === 'trace' ? [one.taskId] : []), ...about])
  const id = ids.find((one) => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(one))
  return id === undefined ? null : { tool: 'why_request', args: { id } }
}
