import t from 'tap'
import { ConfigService } from '../../../kernel/index.js'
import { fake } from '../../../kernel/testing/index.js'
import { gguf, llama } from './cards-kit.js'
import { startHub } from './hub-kit.js'
import { call, pull, reasonOf, scratch, startNode } from './manager-kit.js'
import type { Answer, NodeOptions } from './manager-kit.js'
import type { Rig } from '../../../kernel/testing/index.js'
import type { FakeHub } from './hub-kit.js'

const ID = 'acme/llama'
const MAKE = { make_store: true }
type Kept = [path: string, value: unknown]

const hubOf = async (t: { teardown (fn: () => unknown): void }): Promise<FakeHub> => {
  const hub = await startHub({ models: { [ID]: { files: { 'm.gguf': gguf(llama) } } } })
  t.teardown(async () => { await hub.close() })
  return hub
}

/** A node without a store, and what it has written to svc.yaml. */
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

t.test('a pull that asks for it makes the node the store, without a restart', async (t) => {
  const { rig, kept, ask } = await storeless(t, { hub: await hubOf(t) })
  t.match(await ask({}), { status: 503, body: { error: { reason: 'store_not_configured',
    message: /No node/ } } }, 'not silently')
  const [one, two] = await Promise.all([ask(MAKE), ask(MAKE)])
  const path = kept[0]![1] as string
  t.same(kept, [['model_store.store_path', path]], 'written once')
  t.match([one, two], [{ status: 200, body: { storeMade: path } }, { status: 200 }])
  t.match(await pull(rig, ID, MAKE), { status: 'complete' })
  t.match(await call(rig, 'GET', '/store/health'), { status: 200, body: { storePath: path } })
  t.notOk('storeMade' in (await ask(MAKE)).body, 'there is one now')
})

t.test('who is not the operator makes none, and nothing is left of a refusal', async (t) => {
  const hub = await hubOf(t)
  const reader = await storeless(t, { hub, allow: ['read', 'cluster:write'] })
  t.match(await reader.ask(MAKE), { status: 403, body: { error: { reason: 'missing_grant' } } })
  t.match(await reader.ask({}), { status: 503 })
  const offline = await storeless(t)
  t.equal(reasonOf(await offline.ask(MAKE)), 'hub_disabled', 'there would be nothing to put into it')
  t.same([...reader.kept, ...offline.kept], [])
})

t.test('a disk that is full is told, and the node stays without a store', async (t) => {
  const hub = await hubOf(t)
  const full = await storeless(t, { hub, full: true })
  t.match((await full.ask(MAKE)).body, { error: { reason: 'store_not_configured',
    message: /This node cannot keep the store in .*store: ENOSPC.*Set model_store.store_path/ } })
  t.equal((await call(full.rig, 'GET', '/store/health')).status, 503)
})
