import t from 'tap'
import { ConfigService } from '../../../kernel/index.js'
import { fake, type Rig } from '../../../kernel/testing/index.js'
import { gguf, llama } from './cards-kit.js'
import { startHub, type FakeHub } from './hub-kit.js'
import { call, pull, reasonOf, scratch, startNode, type Answer, type NodeOptions } from './manager-kit.js'

const ID = 'acme/llama'
type Kept = [path: string, value: unknown]

const hubOf = async (t: { teardown (fn: () => unknown): void }): Promise<FakeHub> => {
  const hub = await startHub({ models: { [ID]: { files: { 'm.gguf': gguf(llama) } } } })
  t.teardown(async () => { await hub.close() })
  return hub
}

/** A node without a store that records its writes to svc.yaml. */
async function storeless (
  t: Parameters<typeof startNode>[0], options: NodeOptions & { allow?: string[], full?: boolean } = {}
): Promise<{ rig: Rig, kept: Kept[], ask: (body: object) => Promise<Answer> }> {
  const { allow, full = false, ...node } = options
  const kept: Kept[] = []
  const config = fake(ConfigService, {
    keep: (path, value) => {
      if (full) throw new Error('ENOSPC: no space left on device')
      kept.push([path, value])
    }
  })
  const rig = await startNode(t, { staging: scratch(t), ...node,
    start: { fakes: [config], ...allow === undefined ? {} : { allow } } })
  return { rig, kept, ask: async (body) => await call(rig, 'POST', `/store/models/${ID}/download`, body) }
}

t.test('the first pull makes the node the store, without a restart', async (t) => {
  const { rig, kept, ask } = await storeless(t, { hub: await hubOf(t) })
  t.match(await ask({ source: 'ftp://elsewhere' }), { status: 400 })
  t.same(kept, [], 'what makes no sense makes no store')
  const [one, two] = await Promise.all([ask({}), ask({})])
  const path = kept[0]![1] as string
  t.same(kept, [['model_store.store_path', path]], 'written once')
  t.match([one, two], [{ status: 200, body: { storeMade: path } }, { status: 200 }])
  t.match(await pull(rig, ID), { status: 'complete' })
  t.match(await call(rig, 'GET', '/store/health'), { status: 200, body: { storePath: path } })
  t.notOk('storeMade' in (await ask({})).body, 'there is one now')
})

t.test('so does the first model that is added by its name', async (t) => {
  const { rig, kept } = await storeless(t, { hub: await hubOf(t) })
  const added = await call(rig, 'POST', '/models/add', { source: ID })
  t.match(added, { status: 200, body: { model_id: ID, download: { modelId: ID } } })
  const [[, path]] = kept as [Kept]
  t.match(added.body, { download: { storeMade: path } })
  t.match(await pull(rig, ID), { status: 'complete' })
})

t.test('who is not the operator makes none, and nothing is left of a refusal', async (t) => {
  const hub = await hubOf(t)
  const reader = await storeless(t, { hub, allow: ['read', 'cluster:write'] })
  t.match(await reader.ask({}), { status: 403, body: { error: { reason: 'missing_grant',
    message: /The cluster has no store, and only operators may create one/ } } })
  t.equal(reasonOf(await call(reader.rig, 'POST', '/models/add', { source: ID })), 'missing_grant')
  const offline = await storeless(t)
  t.equal(reasonOf(await offline.ask({})), 'hub_disabled', 'there would be nothing to put into it')
  t.same([...reader.kept, ...offline.kept], [])
})

t.test('a disk that is full is told, and the node stays without a store', async (t) => {
  const hub = await hubOf(t)
  const full = await storeless(t, { hub, full: true })
  t.match((await full.ask({})).body, { error: { reason: 'store_not_configured',
    message: /The store cannot use the folder .*store: ENOSPC.*Set model_store.store_path/ } })
  t.equal((await call(full.rig, 'GET', '/store/health')).status, 503)
})
