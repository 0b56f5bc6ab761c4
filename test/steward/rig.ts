/** Clusters that scenarios break, their models, and the conditions that scenarios wait for. */
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { startCluster, type Cluster, type ClusterOptions, type Member } from '../node/cluster-kit.js'
import { ask } from '../node/http.js'
import { askWithin, instancesOf, placeOn, removing } from '../node/instances-kit.js'
import { fixture, root, until, type TestNode } from '../node/kit.js'
import { cardText } from '../node/staging-kit.js'
import type { Test } from 'tap'
import type { Cause } from './types.js'

/** A plugin with models that fail on demand. */
export interface Weak {
  /** Value of `plugins.NAME.module`. */
  readonly module: string
  /** Sets how the model's runners start from now on. */
  starts (modelId: string, how: 'fine' | 'exit' | 'stuck'): void
}

/** The models of every rig; `acme/huge` declares more memory than any machine has. */
export const MODELS = ['acme/voice', 'acme/tiny', 'acme/reader', 'acme/huge'] as const

/** Writes the plugin into a folder inside the package, from which `svc/plugin` resolves. */
export function weakPlugin (t: Test, more: Record<string, object> = {}): Weak {
  const below = join(root, '.tap/steward')
  mkdirSync(below, { recursive: true })
  const folder = mkdtempSync(join(below, 'plugin-'))
  t.teardown(() => { rmSync(folder, { recursive: true, force: true, maxRetries: 5 }) })
  copyFileSync(fixture('fault-engine.mjs'), join(folder, 'engine.mjs'))
  const cards: Record<string, object> = { ...Object.fromEntries(MODELS.map((id) => [id, {}])), ...more }
  for (const [id, card] of Object.entries(cards)) {
    mkdirSync(join(folder, id), { recursive: true })
    writeFileSync(join(folder, id, 'card.yaml'), cardText(id, {
      tasks: ['tts'], family: 'fault', engine: 'weak-engine', defaults: { start: 'fine' },
      ...id === 'acme/huge' ? { totalBytes: 1e15 } : {}, ...card
    }))
  }
  const models = Object.keys(cards).map((id) =>
    `'${id}': { folder: new URL('./${id}/', import.meta.url).href }`)
  writeFileSync(join(folder, 'plugin.mjs'), `import { definePlugin } from 'svc/plugin'
export default definePlugin({
  name: 'acme', version: '1.0.0', kernel: '^1.0.0', summary: 'Models of a third party.',
  engines: { 'weak-engine': { summary: 'Misbehaves.', backends: ['cpu'],
    module: new URL('./engine.mjs', import.meta.url).href } },
  models: { ${models.join(',\n    ')} }
}, () => ({}))
`)
  const told: Record<string, string> = {}
  return {
    module: join(folder, 'plugin.mjs'),
    starts (modelId, how) {
      told[modelId] = how
      writeFileSync(join(folder, 'starts.json'), JSON.stringify(told))
    }
  }
}

/** A cluster with models that fail on demand. */
export interface Rig extends Cluster {
  readonly weak: Weak
  /** The member called n1, n2, … */
  n (number: number): Member
}

type Settings = Record<string, unknown>

/** Nodes in one cluster with no model placed. */
export async function startRig (t: Test, options: ClusterOptions & { plugins?: Record<string, object> } = {}):
Promise<Rig> {
  const weak = weakPlugin(t)
  const { plugins, config, ...rest } = options
  const cluster = await startCluster(t, {
    heartbeatMs: 1000, ...rest, config: { ...config, plugins: pluginsOf(weak, plugins) }
  })
  const up = cluster.up()
  await until('every link to be shown', async () => {
    const { topology } = (await ask(up[0]!.node, '/state')).json as {
      topology: { connections: Record<string, object> } }
    const counts = Object.values(topology.connections).map((links) => Object.keys(links).length)
    return counts.length === up.length && counts.every((count) => count === up.length - 1)
  })
  return { ...cluster, weak, n: (number) => cluster.members[number - 1]! }
}

/** `plugins` for svc.yaml: a plugin with models that fail on demand, and no automatic placement. */
export const pluginsOf = (weak: Weak, plugins: Settings = {}): Settings => ({
  acme: { module: weak.module }, placement: { autoplace: [] }, ...plugins
})

/** Waits until a node counts this many live members. */
export const live = async (at: Member, count: number): Promise<unknown> => await until(
  `${at.name} to see ${count} live`, async () => (await at.state())?.cluster.liveNodes === count)

/** Waits for a health code about a node, as another node reports it. */
export async function hasCode (at: Member | { node: TestNode }, nodeId: string, code: string, is = true):
Promise<unknown> {
  return await until(`${code} of ${nodeId} to be ${is}`, async () => {
    const { nodeHealth } = (await ask(at.node, '/state')).json as {
      nodeHealth: Record<string, { reasons: { code: string }[] }> }
    return (nodeHealth[nodeId]?.reasons.some((reason) => reason.code === code) ?? false) === is
  })
}

/** Places a model on that member only; returns a function that removes it. */
export async function placed (rig: Cluster, on: Member, model: string): Promise<{
  id: string, remove: () => Promise<void> }> {
  const id = await placeOn(rig, on, model)
  return { id, remove: async () => { await removeAll(rig, model) } }
}

/** Removes every instance of a model, and waits until no node lists one. */
export async function removeAll (rig: Cluster, model: string): Promise<void> {
  const [first] = rig.up()
  for (const { instanceId } of await instancesOf(first!.node, model)) {
    await removing(first!.node, instanceId)
  }
  for (const { node } of rig.up()) {
    await until(`no instance of ${model}`, async () => (await instancesOf(node, model)).length === 0)
  }
}

/** The first unmet condition that GET /models/MODEL/availability reports (`broken_link`), or null. */
export const brokenLink = async (at: { node: TestNode }, model: string): Promise<string | null> =>
  ((await askWithin(at.node, `/models/${model}/availability`)).json as
    { broken_link: string | null }).broken_link

/** Waits until `link` is the model's first unmet condition (null: none) at each of these nodes. */
export async function chainAt (on: readonly { node: TestNode }[], model: string, link: string | null):
Promise<void> {
  for (const host of on) {
    await until(`${model} to be broken at ${link ?? 'nothing'}`,
      async () => await brokenLink(host, model) === link, { seconds: 90 })
  }
}

/** Waits until these members report that a model is available. */
export const answers = async (on: readonly { node: TestNode }[], model: string): Promise<void> => {
  await chainAt(on, model, null)
}

/** A time's hours and minutes in UTC. */
export const hourMinute = (ms: number): string => new Date(ms).toISOString().slice(11, 16)

/** svc.yaml as text, for scenarios with a typo in it. */
export const yamlOf = (config: object): string => stringify(config)

/** A node that is not the master. */
export const follower = async (rig: Rig): Promise<Member> => (await rig.agreed()).others[0]!

/** The expected cause for each of these lost nodes. */
export const lostNode = (...names: string[]): Cause[] => names.map((name) => (
  { codes: ['node_lost'], names: [name],
    says: /lost|gone|down|stopped|dead|no sign of life|not (reached|live|running)/i }))

/** Stops a member's process with SIGTERM and waits for its exit. */
export async function stopGently (member: Member): Promise<void> {
  process.kill(member.node.child.pid, 'SIGTERM')
  await member.node.child.ended
  await member.kill()
}

/** Waits until all members agree and every link is open. */
export async function allLinked (rig: Rig): Promise<unknown> {
  await rig.agreed()
  return await until('every link', async () =>
    (await Promise.all(rig.members.map((m) => m.state()))).every((s) => s !== undefined &&
      !s.cluster.partition))
}
