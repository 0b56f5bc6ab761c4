import t from 'tap'
import type { TestContext } from '../../../kernel/testing/index.js'
import { CANARY_DEADLINE_MS } from '../routing/readiness.js'
import { RunnersService } from '../service.js'
import { endless, failing, startRunners, until, type FakeRunner, type RunnersRig } from './rig.js'
import { card } from './samples.js'

const VOICE = 'svc/voice-en'
const caller = { id: 'test', mode: 'direct', authorities: new Set(['invoke']) } as const

async function ask (rig: RunnersRig, model?: string): Promise<{ status: number, detail: string }> {
  const response = await rig.inject({
    url: model === undefined ? '/readyz' : `/readyz?model=${encodeURIComponent(model)}`
  })
  const body = response.json() as { checks?: Check[], error?: { details: { checks: Check[] } } }
  const checks = body.checks ?? body.error?.details.checks ?? []
  return { status: response.statusCode, detail: checks.find(({ name }) => name === 'runners')?.detail ?? '' }
}
interface Check {
  name: string
  ok: boolean
  detail: string
}

async function ready (
  t: TestContext,
  seconds: number | null
): Promise<{ rig: RunnersRig, runner: FakeRunner }> {
  const rig = await startRunners(t)
  const runner = await rig.runner(VOICE)
  runner.ready()
  runner.secondsSinceForward = seconds
  return { rig, runner }
}

t.test('without a model it has nothing to say', async (t) => {
  const rig = await startRunners(t)
  t.same(await ask(rig), { status: 200, detail: '' })
})

t.test('fresh work vouches for a model, without a canary', async (t) => {
  const { rig, runner } = await ready(t, 30)
  t.same(await ask(rig, VOICE), { status: 200, detail: 'last inference 30.0 s ago' })
  t.same(runner.opened, [])
})

t.test('an idle runner answers a canary, and that lasts 30 s', async (t) => {
  const { rig, runner } = await ready(t, 30.1)
  t.same(await ask(rig, VOICE), { status: 200, detail: 'a canary inference was answered' })
  t.match(runner.opened, [{ task: { kind: 'tts', payload: { model: VOICE, text: 'a' } } }])
  await rig.clock.advance(30_000)
  t.same(await ask(rig, VOICE), { status: 200, detail: 'last inference 30.0 s ago' })
  await rig.clock.advance(1)
  await ask(rig, VOICE)
  t.equal(runner.opened.length, 2)
  t.same((await rig.state())['tasks'], {}, 'a canary is no task of a client')
})

t.test('a request in between is as good as a canary', async (t) => {
  const { rig, runner } = await ready(t, null)
  const runners = rig.service(RunnersService)
  const route = await runners.route({ modelId: VOICE, capability: 'tts', commandId: 'C', caller })
  for await (const chunk of runners.open(route, { kind: 'tts', payload: {} }, new AbortController().signal))
    t.ok(chunk)
  await rig.clock.advance(5_000)
  t.same(await ask(rig, VOICE), { status: 200, detail: 'last inference 5.0 s ago' })
  t.equal(runner.opened.length, 1)
})

const unproven: [string, FakeRunner['answer']][] = [
  ['fails', failing('provider_error')],
  ['breaks off', failing('instance_lost', 1)],
  ['gives nothing', async function * () {}]
]
for (const [name, answer] of unproven) {
  t.test(`a canary that ${name} is no answer`, async (t) => {
    const { rig, runner } = await ready(t, null)
    runner.answer = answer
    t.same(await ask(rig, VOICE), { status: 503, detail: 'a canary inference was not answered in time' })
  })
}

for (const [name, deaf] of [
  ['ends when told', false],
  ['does not hear', true]
] as const) {
  t.test(`a canary is given 5 s; an engine that ${name}`, async (t) => {
    const { rig, runner } = await ready(t, null)
    runner.answer = deaf
      ? async function * () {
        await new Promise(() => {})
        yield { payload: {} }
      }
      : endless
    const answers = [ask(rig, VOICE), ask(rig, VOICE)]
    await until(() => runner.opened.length > 0)
    await rig.clock.advance(CANARY_DEADLINE_MS)
    t.same(
      (await Promise.all(answers)).map(({ status }) => status),
      [503, 503]
    )
    t.equal(runner.opened.length, 1, 'askers at the same time share one')
  })
}

t.test('a busy runner is not disturbed', async (t) => {
  const { rig, runner } = await ready(t, 31)
  await rig.service(RunnersService).route({ modelId: VOICE, capability: 'tts', commandId: 'C', caller })
  t.match(await ask(rig, VOICE), { status: 503, detail: /busy/ })
  t.same(runner.opened, [])
})

t.test('a model that is not there or not ready', async (t) => {
  const rig = await startRunners(t)
  await rig.runner(VOICE)
  t.match(await ask(rig, VOICE), { status: 503, detail: /is starting/ })
  t.match(await ask(rig, 'acme/none'), { status: 503, detail: /Use one of: svc\/voice-en/ })
})

t.test('ten idle minutes leave models of every task ready', async (t) => {
  const [chat, vectors] = ['acme/chat', 'acme/vectors']
  const rig = await startRunners(t, {
    cards: [card(VOICE), card(chat, { tasks: ['chat'] }), card(vectors, { tasks: ['embeddings'] })]
  })
  for (const model of [VOICE, chat, vectors]) {
    const runner = await rig.runner(model)
    runner.ready()
    runner.secondsSinceForward = 600
  }
  await rig.clock.advance(600_000)
  for (const model of [VOICE, chat, vectors]) t.match(await ask(rig, model), { status: 200 }, model)
  t.match((await ask(rig, chat)).detail, /idle; last inference 600.0 s ago/)
})
