import t from 'tap'
import { mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ask, refusal } from './http.js'
import { figure, fixture, secondsSince, until } from './kit.js'
import { answersAt, instance, instancesOf, nodesOf, placing, settled, view } from './instances-kit.js'
import { cardText, makeModel, MIB, put, startSite, transferOf } from './staging-kit.js'
import type { Place, Site } from './staging-kit.js'
import type { Member } from './cluster-kit.js'
import type { Test } from 'tap'

const SIZE = 24 * MIB

/** Three nodes, the first with the store, and models in it that the engine of the faults serves. */
async function site (t: Test, models: readonly string[]): Promise<Site> {
  const made = await startSite(t, {
    nodes: 3,
    config: (n) => ({
      plugins: { faults: { module: fixture('faults.mjs') }, placement: { autoplace: [] } },
      ...n === 1 ? { model_store: { upload_mib_per_second: 8 } } : {}
    })
  })
  for (const model of models) {
    const card = cardText(model, { engine: 'fault-engine', tasks: ['tts'], defaults: { start: 'fine' } })
    await put(made, makeModel(t, model, { 'card.yaml': Buffer.from(card), 'weights.data': SIZE }))
  }
  return made
}

const members = (of: Site): Member[] => of.nodes as unknown as Member[]

/** A placement whose model is being copied to its node. */
interface Going { id: string, model: string, home: Place, spare: Place }

/** Places a model anywhere but on the store's node, and waits until some of it has come there. */
async function onItsWay (of: Site, model: string): Promise<Going> {
  const [first, ...rest] = of.nodes
  const answer = await placing(first!.node, model, { excluded_nodes: [first!.name] })
  if (answer.status !== 200) throw new Error(answer.text)
  const { instance_id: id } = answer.json as { instance_id: string }
  const [nodeId] = nodesOf(await instance(first!.node, id))
  const home = rest.find(({ node }) => node.nodeId === nodeId)!
  await until('some of it to come', async () => ((await transferOf(home, model))?.bytes ?? 0) > 0)
  return { id, model, home, spare: rest.find((one) => one !== home)! }
}

/** Waits until it serves on the other node, by itself; checks what is told of it. */
async function moved (t: Test, of: Site, { id, model, home, spare }: Going, code: string): Promise<void> {
  const start = performance.now()
  const { node } = of.host
  const ring = await until('an instance in its place', async () => (await instancesOf(node, model))
    .find(({ placement }) => placement?.replaces === id), { seconds: 60 })
  t.strictSame(nodesOf(ring), [spare.node.nodeId], 'on the node that is left')
  t.equal(ring.placement?.failedOn.length, 1)
  await answersAt(members(of), model, 60)
  const { instanceFailures } = await view(node)
  t.match(instanceFailures.filter(({ modelId }) => modelId === model),
    [{ instanceId: id, errorCode: code, affectedNodeIds: [home.node.nodeId] }])
  figure(t, `moved for ${code}`, t.passing(), { seconds: secondsSince(start) })
  await ask(node, `/instance/${ring.instanceId}`, { method: 'DELETE' })
  t.strictSame(await settled(members(of)), [])
}

const GROUPS = '/sys/fs/cgroup/memory'
/** No limit. */
const PLENTY = 2 ** 40

/** A group of processes of its own for the memory of a node; undefined where there can be none. */
function groupOf (t: Test, name: string):
{ join (pid: number): void, limit (bytes: number): void } | undefined {
  const path = join(GROUPS, `svc-test-${process.pid}-${name}`)
  try {
    mkdirSync(path)
    writeFileSync(join(path, 'memory.limit_in_bytes'), String(PLENTY))
  } catch {
    return undefined
  }
  t.teardown(async () => {
    await until('the group to be empty', () => {
      try { rmdirSync(path); return true } catch { return false }
    })
  })
  return {
    join (pid) { writeFileSync(join(path, 'cgroup.procs'), String(pid)) },
    limit (bytes) { writeFileSync(join(path, 'memory.limit_in_bytes'), String(bytes)) }
  }
}

t.test('models that cannot start where they were placed', async (t) => {
  // Before the nodes are: a group can only be removed when they are gone.
  const groups = new Map(['n2', 'n3'].map((name) => [name, groupOf(t, name)]))
  const of = await site(t, ['acme/first', 'acme/second'])

  await t.test('memory that is gone between plan and load: it is placed on another node', async (t) => {
    if ([...groups.values()].includes(undefined)) {
      t.comment('skipped: this system lets nobody make a group of processes with a limit of memory')
      return
    }
    for (const { name, node } of of.nodes.slice(1)) groups.get(name)!.join(node.pid)
    const going = await onItsWay(of, 'acme/first')
    groups.get(going.home.name)!.limit(SIZE + 200 * MIB)
    await moved(t, of, going, 'insufficient_memory')
    const answer = await placing(of.host.node, going.model, { excluded_nodes: ['n1', going.spare.name] })
    t.match([answer.status, refusal(answer)], [400, { reason: 'insufficient_memory' }],
      'and the plan knows it now')
    groups.get(going.home.name)!.limit(PLENTY)
  })

  await t.test('a download that fails: it is placed on another node', async (t) => {
    const going = await onItsWay(of, 'acme/second')
    // Its folder of copies is gone, as when a disk is.
    rmSync(going.home.staging, { recursive: true, force: true })
    writeFileSync(going.home.staging, 'no folder')
    await moved(t, of, going, 'download_failed')
  })
})
