import './process-plain-spawn.js'
import { readdirSync } from 'node:fs'
import t from 'tap'
import { systemClock, type EngineChunk } from '../../../kernel/index.js'
import { startPlugin, type Rig, type TestContext } from '../../../kernel/testing/index.js'
import type { Bundle } from '../cards/bundle.js'
import { createRunners } from '../index.js'
import { createSupervisor } from '../process/supervisor.js'
import { runnersFolder } from '../instances/launch.js'
import { InstanceService, RunnersService } from '../service.js'
import { ensure, until } from './rig.js'
import { card, machine } from './samples.js'

const VOICE = 'svc/voice-en'
const caller = { id: 'test', mode: 'direct', authorities: new Set(['invoke']) } as const
const engine = {
  name: 'onnx-tts',
  owner: 'capabilities-tts',
  decl: { summary: 'speech', module: new URL('./fixtures/tts.mjs', import.meta.url).href, backends: ['cpu'] }
}

async function start (t: TestContext): Promise<Rig> {
  const model = { card: card(VOICE), directory: '/' }
  const bundle: Bundle = {
    engine: () => engine,
    engines: () => [engine],
    model: (id) => id === VOICE ? model : undefined,
    models: () => [model],
    cardReaders: () => []
  }
  const plugin = createRunners({ createSupervisor, files: machine(), uid: process.getuid?.() ?? 0, bundle })
  const rig = await startPlugin(t, plugin, { clock: systemClock })
  await ensure(rig, VOICE)
  await ready(rig)
  return rig
}

async function ready (rig: Rig): Promise<void> {
  await until(() => rig.service(RunnersService).models('tts').some((model) => model.ready))
}

async function ask (rig: Rig, payload: Record<string, unknown>): Promise<EngineChunk[]> {
  const runners = rig.service(RunnersService)
  const route = await runners.route({ modelId: VOICE, capability: 'tts', commandId: 'C', caller })
  const chunks: EngineChunk[] = []
  const answer = runners.open(route, { kind: 'tts', payload }, new AbortController().signal)
  for await (const chunk of answer) chunks.push(chunk)
  return chunks
}

const pidOf = (rig: Rig): number => rig.service(RunnersService).reports()[0]?.pid ?? 0
const alive = (pid: number): boolean => { try { return process.kill(pid, 0) } catch { return false } }

t.test('a real process serves, dies, comes back and goes with its instance', async (t) => {
  const rig = await start(t)
  const first = pidOf(rig)
  t.ok(first > 0 && first !== process.pid && alive(first), 'a process of its own')
  const spoken = { payload: { text: 'hello', model: VOICE } }
  t.match(await ask(rig, { text: 'hello', chunks: 3 }), [spoken, spoken, spoken])

  await t.rejects(ask(rig, { text: 'die' }), { reason: 'instance_lost', retryable: true } as never)
  await ready(rig)
  t.not(pidOf(rig), first, 'another process')
  t.match(await ask(rig, { text: 'again' }), [{ payload: { text: 'again' } }])
  t.equal((await rig.inject({ url: `/readyz?model=${VOICE}` })).statusCode, 200)

  const last = pidOf(rig)
  const { instanceId } = await ensure(rig, VOICE)
  await rig.service(InstanceService).remove(instanceId)
  t.notOk(alive(last), 'the process is gone when remove returns')
  t.same(rig.service(RunnersService).reports(), [])
})

t.test('old folders of runners do not pile up', async (t) => {
  const rig = await start(t)
  const instances = rig.service(InstanceService)
  for (let n = 0; n < 6; n += 1) {
    const { instanceId } = await ensure(rig, VOICE)
    await ready(rig)
    await instances.remove(instanceId)
  }
  t.equal(readdirSync(runnersFolder(rig.home)).length, 4)
})

t.test('nothing outlives the node', async (t) => {
  const rig = await start(t)
  const pid = pidOf(rig)
  await rig.stop()
  t.notOk(alive(pid))
})
