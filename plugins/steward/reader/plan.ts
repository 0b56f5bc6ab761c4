import type { World } from './entities.js'
import type { Understood } from './thread.js'
import type { ToolCall } from '../types.js'

const call = (tool: string, args: Record<string, string | null | undefined> = {}): ToolCall =>
  ({ tool, args: Object.fromEntries(Object.entries(args).filter(([, value]) => value != null)) })

/** Character limit for questions that are passed to the help search; longer ones are cut. */
const HELP_MOST = 400
const help = ({ text }: Understood): ToolCall => call('help', { question: text.slice(0, HELP_MOST) || '?' })

/** Limit on nodes whose memory is read if the question names none. */
const NODES_MOST = 6
/** Default range of past events in ms. */
const HAPPENED_MS = 24 * 3600_000
/** An event at most this many ms before now may explain a present fault. */
const BEFORE_MS = 6 * 3600_000

/** Intents for which everything is checked, since the cause may be anywhere. */
const DIAGNOSES: ReadonlySet<Understood['intent']> = new Set([
  'health', 'why-model', 'why-request', 'slow', 'node', 'access', 'join', 'feature', 'error'
])
/** Intents that ask for a list or a sum; in a complaint they ask for a cause. */
const TOLD: ReadonlySet<Understood['intent']> = new Set([
  'running', 'master', 'fit', 'disk', 'memory', 'settings', 'plugins', 'downloads'
])

/** Whether to look for the cause of a problem, beyond the facts that were asked for. */
export const diagnoses = ({ intent, complains }: Understood): boolean =>
  DIAGNOSES.has(intent) || (complains && TOLD.has(intent))

/** Tool calls for a question, to run in parallel; the one most likely to suffice comes first. Pure. */
export function planOf (asked: Understood, world: World): ToolCall[] {
  const { intent, asks, model, node } = asked
  const planned = PLANS[intent](asked, world)
  const whole = !diagnoses(asked) || planned.some(({ tool }) => tool === 'doctor')
  const calls = whole ? planned : [...planned, call('doctor')]
  if (asks !== 'when' || intent === 'happened' || intent === 'master') return calls
  return [...calls, call('events', { from: since(world, HAPPENED_MS), about: model ?? node?.name })]
}

/** Whether the question says that something broke within a period that ends now. */
const brokeNow = ({ complains, when }: Understood, { nowMs }: World): boolean =>
  complains && (when === null || Date.parse(when.to) >= nowMs)

const whyModel = (model: string | null): ToolCall[] => model === null ? [] : [call('why_model', { model })]
const since = (world: World, ms: number): string => new Date(world.nowMs - ms).toISOString()

const PLANS: Readonly<Record<Understood['intent'], (asked: Understood, world: World) => ToolCall[]>> = {
  health: ({ complains }, world) => [
    call('doctor'), call('cluster_now'), call('running'),
    ...complains ? [call('last_failure'), call('events', { from: since(world, BEFORE_MS) })] : []
  ],
  'why-model': ({ model, node, topic }, { models }) => [
    call('why_model', { model }), call('doctor'), call('last_failure', { model }),
    ...topic === 'staging' || node !== null || !models.includes(model!) ? [call('downloads', { model })] : [],
    ...node === null ? [] : [call('node', { node: node.name })]
  ],
  'why-request': ({ model, id }) => id === null
    ? [call('last_failure', { model }), call('doctor'), ...whyModel(model)]
    : [call('why_request', { id }), call('doctor')],
  running: () => [call('running')],
  master: () => [call('cluster_now')],
  happened: (asked, world) => [
    call('events', {
      from: asked.when?.from ?? since(world, HAPPENED_MS), to: asked.when?.to,
      about: asked.model ?? asked.node?.name
    }),
    ...brokeNow(asked, world) ? [call('doctor')] : []
  ],
  then: ({ when }, world) => [call('cluster_then', { at: when?.at ?? since(world, 3600_000) })],
  fit: ({ model, node, text, complains }) => model === null
    ? [call('running')]
    : [
        call('fit', { model, without: /\bwithout\b/i.test(text) ? node?.name : null }),
        ...complains ? whyModel(model) : []
      ],
  'what-if': ({ node }) => node === null ? [call('cluster_now')] : [call('what_if', { node: node.name })],
  node: ({ node, complains }, world) => [
    call('node', { node: node?.name }), call('doctor'),
    ...complains ? [call('events', { from: since(world, BEFORE_MS), about: node?.name })] : []
  ],
  disk: () => [call('disks')],
  downloads: ({ model }) => [call('downloads', { model })],
  memory: ({ node }, { nodes }) => (node === null ? nodes.slice(0, NODES_MOST) : [node])
    .map(({ name }) => call('node', { node: name })),
  slow: ({ model }) => [call('slow', { model }), call('doctor'), ...whyModel(model)],
  logs: ({ node, model, when, level }) =>
    [call('logs', { node: node?.name, model, from: when?.from, level })],
  settings: ({ setting }) => [call('settings', { path: setting })],
  plugins: () => [call('plugins')],
  access: (asked) => [call('tokens', { about: asked.text }), call('doctor'), help(asked)],
  join: (asked) => [
    call('doctor'),
    asked.node === null ? call('cluster_now') : call('node', { node: asked.node.name }),
    help(asked)
  ],
  help: (asked) => [help(asked)],
  hello: () => [],
  other: (asked) => [help(asked), call('doctor')],
  feature: ({ topic, off, model }) => [
    ...off ? [call('plugins')] : topic === 'staging' ? [call('disks'), call('downloads', { model })] : [],
    call('doctor')
  ],
  error: (asked) => [help(asked), call('doctor')]
}
