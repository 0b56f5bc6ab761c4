import { causeAmong, plain, type Evidence, type Fact, type Finding } from '../../../kernel/cli/index.js'
import type { Answer, ToolCall } from '../types.js'
import type { World } from './entities.js'
import type { Asked, Topic } from './question.js'
import { contentOf, countedText } from './words.js'

export interface Found { readonly call: ToolCall, readonly finding: Finding }

/** The reader's answer, without `voice` and `calls`, which describe how it was made. */
export type Worded = Omit<Answer, 'voice' | 'calls'>

/** A fact; findings also say when they began, whether they have ended, and their cause. */
type Listed = Fact & { readonly since?: string | null, readonly ended?: boolean,
  readonly cause?: string | null }

interface Ranked { readonly fact: Listed, readonly own: boolean, readonly fit: number, readonly rank: number }

/** Limits on facts in an answer: for a diagnosis, and for a request for facts. */
const DIAGNOSIS_MOST = 8
const FACTS_MOST = 20
const QUIET_MOST = 3
const BEFORE_MS = 24 * 3_600_000
const HELP_MOST = 400

/** Tools whose facts are about the past: they explain a fault, but do not report a present one. */
export const HISTORY = new Set(['last_failure', 'events', 'logs', 'cluster_then', 'help'])
/** Faults that can have effects on any node or model. */
const EVERYWHERE = new Set(['no_quorum', 'no_master', 'disk_full', 'clock_skew'])
/** Momentary or resolved faults, which matter only in answers about them. */
const NOTED = new Set(['runner_restarts', 'event_loop_lag', 'discovery_blocked', 'not_ready'])

const LEVELS: Readonly<Record<Fact['level'], number>> = { fail: 60, warn: 40, info: 8, ok: 4 }
const isBad = ({ level }: Fact): boolean => level === 'fail' || level === 'warn'

const call = (tool: string, args: Record<string, string | null | undefined> = {}): ToolCall =>
  ({ tool, args: Object.fromEntries(Object.entries(args).filter(([, value]) => value != null)) })

/** Whether to look for a cause, beyond the facts that were asked for. */
export function seeks ({ kind, complains, doubts, topics, models, nodes, id, feature }: Asked): boolean {
  if (kind === 'hello' || kind === 'safe' || kind === 'compare' || kind === 'how') return false
  if (kind === 'why' || kind === 'when') return true
  if (kind === 'fit' || kind === 'count') return false
  return complains || doubts || id !== null || (topics.length === 0 && feature === null) ||
    (models.length + nodes.length > 0 && topics.length === 0)
}

/** The calls for a question, to run in parallel; those about its subjects come first. Pure. */
export function planOf (asked: Asked, world: World): ToolCall[] {
  const { kind, models, nodes, id, topics, when, setting } = asked
  const [model, node] = [models[0], nodes[0]]
  const help = call('help', { question: asked.text.slice(0, HELP_MOST) || '?' })
  if (kind === 'hello') return []
  if (kind === 'how') return [help, ...models.map((one) => call('why_model', { model: one })), call('doctor')]
  const calls: ToolCall[] = []
  if (id !== null) calls.push(call('why_request', { id }))
  if (kind === 'safe') calls.push(...node === undefined ? [call('cluster_now')]
    : [call('what_if', { node: node.name })])
  else if (kind === 'fit' && model !== undefined) {
    calls.push(call('fit', { model, without: /\bwithout\b/.test(asked.counted) ? node?.name : null }))
  } else if (wasAsked(asked)) calls.push(call('cluster_then', { at: when!.at }))
  const facts = topics.flatMap((topic) => callOf(topic, asked, world))
  const subjects = [
    ...kind === 'safe' ? []
      : models.map((one) => call('why_model', { model: one })),
    ...nodes.map(({ name }) => call('node', { node: name }))
  ]
  calls.push(...seeks(asked) ? [...subjects, ...facts] : [...facts, ...subjects])
  if (seeks(asked) && model !== undefined && kind !== 'when') calls.push(call('downloads', { model }))
  if (kind === 'when' || (when !== null && topics.every(({ name }) => name !== 'happened'))) {
    calls.push(callOf({ name: 'happened', tool: 'events', codes: /./ }, asked, world)[0]!)
  }
  if (setting !== null) calls.unshift(call('settings', { path: setting }))
  if (asked.error !== null ||
    (calls.length === 0 && !asked.complains && !HEALTH.test(asked.counted))) calls.push(help)
  calls.splice(7)
  return distinct([...calls, call('doctor')], ({ tool, args }) => JSON.stringify([tool, args]))
}

const HEALTH = /\b(?:fine|health|ok|wrong|status|cluster|how (?:is|are)|fix|mend|attention|news)\b/
/** "Who was master at 14:00?" asks for the state at that time. */
const wasAsked = ({ when, counted, complains }: Asked): boolean => when !== null && !complains &&
  /(?:^| )(?:was|were|look|looked|state|back then|as it)(?= |$)/.test(counted)

function callOf ({ name, tool }: Topic, asked: Asked, world: World): ToolCall[] {
  const { models: [model], nodes: [node], when, nodes, setting } = asked
  const about = model ?? node?.name
  switch (tool) {
    case null: return []
    case 'node': return nodes.length > 0 ? []
      : world.nodes.slice(0, 6).map((one) => call('node', { node: one.name }))
    case 'tokens': return [call('tokens', { about: asked.text })]
    case 'settings': return setting === null ? [call('settings')] : []
    case 'logs': return [call('logs',
      { node: node?.name, model, from: when?.from, level: asked.complains ? 'error' : null })]
    case 'events': return [call('events', { about, to: when?.to,
      from: when?.from ?? new Date(world.nowMs - BEFORE_MS).toISOString() })]
    case 'downloads': return [call(tool, { model }), ...asked.complains ? [call('disks')] : []]
    case 'slow': case 'last_failure': return [call(tool, { model })]
    default: return name === 'running' && asked.models.length > 0 && seeks(asked) ? [] : [call(tool)]
  }
}

const targetsOf = ({ models, nodes, id, error }: Asked): string[] =>
  [...models, ...nodes.flatMap(({ name, nodeId }) => [name, nodeId]), id, error]
    .filter((one) => one !== null).map((one) => one.toLowerCase())

/** Scores a fact against the question's subjects, topics, words and time. */
function fitOf (asked: Asked, targets: readonly string[], { code, about, text, evidence }: Listed): number {
  const low = text.toLowerCase()
  const subject = targets.some((one) => [code, ...about].some((name) => name.toLowerCase() === one) ||
    (one.length > 3 && low.includes(one)))
  const topic = asked.topics.some(({ name, codes }) => name !== 'happened' && codes.test(code))
  // Names and quoted log lines are foreign text: their words must not change what is answered.
  const plainly = about.reduce((rest, name) => rest.replaceAll(name.toLowerCase(), ' '), low)
    .replace(/"[^"]*"/g, ' ')
  const own = contentOf(countedText(`${plainly} ${code.replaceAll('_', ' ')} ${code}`))
  const words = [...asked.words].filter((word) => own.has(word)).length
  const at = evidence.flatMap((one) => 'at' in one ? [Date.parse(one.at)] : [])[0]
  const timely = asked.when !== null && at !== undefined &&
    at >= Date.parse(asked.when.from) && at <= Date.parse(asked.when.to)
  return (subject ? 100 : 0) + (topic ? 50 : 0) + Math.min(words, 3) * 25 + (timely ? 45 : 0)
}

/** All facts, the one that answers best first, without duplicates. */
function rankedOf (asked: Asked, found: readonly Found[], seeking: boolean): Ranked[] {
  const targets = targetsOf(asked)
  const all = found.flatMap(({ finding }) => finding.facts)
  const ranked = found.flatMap(({ call: { tool }, finding }) =>
    finding.facts.map((given: Listed, place): Ranked => {
      const own = tool !== 'doctor'
      const past = HISTORY.has(tool) || given.ended === true
      const fit = fitOf(asked, targets, given)
      const cause = given.cause ?? (past ? undefined : causeAmong(given, all)?.code) ?? null
      const fact = clean(past && seeking ? { ...given, level: given.level === 'ok' ? 'ok' : 'info',
        remedy: fit >= 100 ? given.remedy : null }
        : NOTED.has(given.code) && fit === 0 && given.level === 'warn'
          ? { ...given, level: 'info', remedy: null } : { ...given, cause })
      const level = seeking ? LEVELS[fact.level] + (isBad(fact) && EVERYWHERE.has(fact.code) ? 30 : 0) : 0
      return { fact, own, fit, rank: fit + level - (cause === null ? 0 : 45) + (own ? 20 : 0) - place / 100 }
    }))
  return distinct(ranked.toSorted((a, b) => b.rank - a.rank), ({ fact: { code, about, text } }) =>
    `${code} ${about.length === 0 ? text : [...about].sort().join(' ')}`.toLowerCase())
}

function distinct<T> (list: readonly T[], keyOf: (one: T) => string): T[] {
  const seen = new Set<string>()
  return list.filter((one) => !seen.has(keyOf(one)) && seen.add(keyOf(one)))
}

/** Removes control characters, because text from nodes, logs and cards reaches terminals and pages. */
const clean = (fact: Listed): Listed => ({
  ...fact, text: plain(fact.text).trim(), about: fact.about.map(plain),
  evidence: fact.evidence.map((one) => JSON.parse(JSON.stringify(one), (_, value: unknown) =>
    typeof value === 'string' ? plain(value) : value) as Evidence),
  remedy: fact.remedy === null ? null : plain(fact.remedy).trim()
})

export function answerOf (asked: Asked, found: readonly Found[], world: World): Worded {
  const seeking = seeks(asked)
  const ranked = rankedOf(asked, found, seeking)
  // "How do I bring node3 back?" asks for the remedy of what is wrong with it.
  const mending = asked.kind !== 'how' ? undefined
    : ranked.find(({ fact, fit }) => fit >= 100 && isBad(fact) && fact.remedy !== null)
  const { diagnosis, facts, sure } = seeking || mending !== undefined ? diagnosed(asked, ranked)
    : told(asked, ranked, found, world)
  // Gaps in the findings matter only to a question about a fault.
  const looked = found.filter(({ call: { tool } }) => seeking || tool !== 'doctor' || found.length === 1)
  const unknown = distinct([...asked.read, ...looked.flatMap(({ finding }) => finding.unknown)].map(plain),
    (one) => one)
  const shown = facts.map(({ fact }) => fact)
  const remedies = distinct(shown.flatMap(({ remedy }) => remedy ?? []), (one) => one)
  const mends = (seeking ? /\bmend\b/.test(asked.counted) : mending !== undefined) &&
    remedies[0] !== undefined
  return {
    diagnosis: mends ? remedies[0]!
      : diagnosis, sure: sure(unknown.length === 0), facts: shown, remedies, unknown,
    evidence: distinct(shown.flatMap(({ evidence }) => evidence), (one) => JSON.stringify(one))
  }
}

interface Part { diagnosis: string, facts: Ranked[], sure: (complete: boolean) => boolean }

const unstopped = (text: string): string => text.replace(/(?<![.:;])[.:;]+$/, '')
const union = (...lists: readonly (readonly Ranked[])[]): Ranked[] => [...new Set(lists.flat())]

/** The cause of what the question complains about; if no finding fits it, what was checked and found well. */
function diagnosed (asked: Asked, ranked: readonly Ranked[]): Part {
  const narrow = targetsOf(asked).length > 0 || asked.topics.some(({ name }) => name !== 'happened') ||
    asked.words.size > 0
  const bad = ranked.filter(({ fact }) => isBad(fact))
  const fits = (one: Ranked): boolean =>
    !narrow || one.fit > 0 || EVERYWHERE.has(one.fact.code) || one.fact.code === 'plugin_off'
  const [top] = bad.filter(fits)
  const quiet = ranked.filter(({ fact }) => !isBad(fact))
  const past = quiet.filter(({ fact, fit }) => (fact.ended === true || fact.level === 'info') && fit > 0)
  const well = quiet.filter(({ fact }) => fact.level === 'ok')
  // A check that passed answers a doubt better than figures do.
  const near = quiet.filter(({ fit, own, fact }) => fit > 0 && own && fact.code !== 'no_downloads')
    .toSorted((a, b) => Number(b.fact.level === 'ok') - Number(a.fact.level === 'ok'))
  if (top !== undefined) {
    const cause = top.fact.cause == null ? undefined : bad.find(({ fact }) => fact.code === top.fact.cause)
    return {
      diagnosis: cause === undefined ? top.fact.text : `${unstopped(top.fact.text)}: ${cause.fact.text}`,
      facts: union([top], cause === undefined ? []
        : [cause], bad.filter(fits), past, near.slice(0, QUIET_MOST), bad)
        .slice(0, DIAGNOSIS_MOST),
      sure: (complete) => complete || top.fit >= 100 || top.fact.level === 'fail'
    }
  }
  const elsewhere = bad[0] === undefined ? '' : `; elsewhere: ${bad[0].fact.text}`
  const facts = union(past.slice(0, 4), near.slice(0, 4), bad, well.slice(0, 4)).slice(0, DIAGNOSIS_MOST)
  const note = quiet.find(({ fact, fit }) => fit >= 100 && fact.level === 'info' && fact.ended !== true &&
    fact.remedy !== null)
  const before = asked.when !== null || asked.complains
    ? past.find(({ fact, fit }) => fact.ended === true || fit >= (asked.when === null ? 145 : 45)) : undefined
  const subject = near.find(({ fit }) => fit >= 100) ?? (asked.doubts ? near[0] : undefined)
  const said = note ?? (asked.when === null ? subject : before) ?? subject ?? before
  if (said !== undefined) {
    const premise = said === subject && said.fact.level === 'ok' && asked.complains ? 'Not so now: ' : ''
    const also = said === subject && before !== undefined && before !== subject
      ? `; before: ${before.fact.text}` : ''
    return {
      diagnosis: `${premise}${[also, elsewhere].filter((one) => one !== '')
        .reduce((all, one) => unstopped(all) + one, said.fact.text)}`,
      facts: union([said], facts), sure: (complete) => complete && elsewhere === ''
    }
  }
  return {
    diagnosis: calm(asked, well, past[0], elsewhere),
    facts, sure: (complete) => complete && !asked.complains && well.length > 0
  }
}

/** No finding fits: names the checks that passed, and says that all is well only if asked about health. */
function calm (asked: Asked, well: readonly Ranked[], past: Ranked | undefined, elsewhere: string): string {
  if (well.length === 0) return 'Nothing that is wrong could be seen, but not everything could be looked at.'
  const asks = !asked.complains ? HEALTH.test(asked.counted) : /\bwrong\b/.test(asked.counted) &&
    asked.words.size === 0 && /\?|^(?:what|is|any)/.test(asked.text.toLowerCase())
  if (asks && elsewhere === '' && past === undefined) return 'Nothing is wrong.'
  if (elsewhere !== '' && !asked.complains) return elsewhere.replace('; elsewhere: ', '')
  const checked = well.slice(0, 4).map(({ fact }) => unstopped(fact.text)).join('; ')
  return `No finding explains that${elsewhere === '' ? '' : unstopped(elsewhere)}. ` +
    `Checked and found well: ${checked}.${past === undefined ? '' : ` Before: ${past.fact.text}`}`
}

/** Help for greetings and for questions that were not understood. */
const CAN = 'Ask what is wrong, why a model does not answer or a request failed, what is running, who is ' +
  'master, what happened around a time, whether a model fits, what happens if a node dies, or how ' +
  'something is done.'
/** Codes of the facts that answer a topic best, before others of its tool. */
const FIRST: Readonly<Record<string, RegExp>> = {
  master: /^(?:master|no_master|no_quorum)$/, nodes: /^nodes$/, memory: /^machine$/,
  running: /^(?:running|nothing_placed)$/
}

/** The facts that were asked for. */
function told (asked: Asked, ranked: readonly Ranked[], found: readonly Found[], world: World): Part {
  const { kind, nodes, topics } = asked
  const fixed = (diagnosis: string, sure: boolean): Part => ({ diagnosis, facts: [], sure: () => sure })
  if (kind === 'hello') return fixed(CAN, true)
  if (kind === 'safe' && nodes.length === 0 && !/NODE/.test(asked.counted)) {
    const names = world.nodes.map(({ name }) => plain(name)).join(', ')
    return fixed(`Which node? Ask again with its name: ${names}.`, false)
  }
  const targets = targetsOf(asked)
  if (kind === 'fit' && targets.length === 0) return fixed('Which model? Ask again with its name.', false)
  const toolsFirst = new Map(found.map(({ call: { tool } }, i) => [tool, i]))
  const callsOf = (one: Ranked): number => found.findIndex(({ finding }) =>
    finding.facts.some(({ code, text }) => code === one.fact.code && plain(text).trim() === one.fact.text))
  const best = kind === 'safe' || kind === 'fit' || kind === 'how'
  const wanted = topics.flatMap(({ name }) => FIRST[name] ?? [])
  const listed = ranked.filter(({ own, fact, fit }) => own || (isBad(fact) && fit > 0))
  const score = (one: Ranked): number => one.rank + (targets.length > 0 ? -2 * one.fact.about.length
    : wanted.some((code) => code.test(one.fact.code)) ? 120 : 0)
  const ordered = (best ? listed.toSorted((a, b) => callsOf(a) - callsOf(b) || 0)
    : extremes(asked, listed.toSorted((a, b) => score(b) - score(a)))).slice(0, FACTS_MOST)
  const [first] = ordered
  if (first === undefined) {
    const why = found.flatMap(({ finding }) => finding.unknown)[0]
    return fixed(why === undefined ? `The question was not understood. ${CAN}` : plain(why), false)
  }
  const pair = kind === 'compare' ? nodes.flatMap(({ name }) =>
    ordered.find(({ fact: { about, code } }) => about.includes(name) &&
      (topics.length > 0 || code === 'machine')) ?? []) : []
  return {
    diagnosis: pair.length > 1 ? pair.map(({ fact }) => fact.text).join(' ') : first.fact.text,
    facts: union(pair, ordered),
    sure: (complete) => complete && (kind !== 'what' || topics.length > 0 || toolsFirst.size > 1)
  }
}

const UNITS = { KiB: 1, MiB: 2, GiB: 3, TiB: 4 } as const
const amountIn = ({ text }: Fact): number => {
  const [, value, unit] = /(?<![\d.])(\d{1,9}(?:\.\d{1,9})?) (KiB|MiB|GiB|TiB)/.exec(text) ?? []
  return value === undefined ? Number.NaN : Number(value) * 1024 ** UNITS[unit as keyof typeof UNITS]
}

/** For "largest" or "least" sorts facts of the same kind by the amount that they name. */
function extremes ({ counted }: Asked, list: readonly Ranked[]): Ranked[] {
  const most = /\b(?:biggest|largest|most|more|highest|best)\b/.test(counted)
  if (!most && !/\b(?:smallest|least|less|fullest|lowest)\b/.test(counted)) return [...list]
  const code = list.find(({ fact }) => !Number.isNaN(amountIn(fact)))?.fact.code
  const alike = list.filter(({ fact }) => fact.code === code)
    .toSorted((a, b) => (amountIn(b.fact) - amountIn(a.fact)) * (most ? 1 : -1))
  return union(alike, list)
}

/** A further call that the facts require: the newest failed request, or the plugins if a tool is missing. */
export function moreOf (asked: Asked, found: readonly Found[],
  has: (tool: string) => boolean): ToolCall | null {
  if (found.some(({ call: { tool } }) => !has(tool)) && asked.kind !== 'how') return call('plugins')
  if (asked.feature !== null && asked.complains) return call('plugins')
  if (asked.id !== null || !seeks(asked) || !asked.topics.some(({ name }) => name === 'request')) return null
  const failure = found.find(({ call: { tool } }) => tool === 'last_failure')?.finding.facts[0]
  const id = failure?.about.find((one) => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(one))
  return id === undefined ? null : call('why_request', { id })
}
