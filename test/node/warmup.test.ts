import t from 'tap'
import { ask, call, streamed } from './http.js'
import { does, ready, report, runnerLogs, TTS } from './engine.js'
import { faultsConfig, figure, inTime, pick, secondsSince, sleep, startNode, until } from './kit.js'
import { alive } from './proc.js'

t.test('T-R03 and T-R04: a runner that cannot start, and one that hangs in its warmup', async (t) => {
  const WARMUP_SECONDS = 3
  const node = await startNode(t,
    { ready: false, env: { SVC_WARMUP_DEADLINE_SECONDS: String(WARMUP_SECONDS) },
      config: faultsConfig({ logging: { enabled: true } }, { autoplace: ['test/exits', 'test/stuck',
        'test/ok'] }) })
  const warming = (async () => {
    await until('the warmup', async () => (await report(node, 'test/stuck')).statusKind === 'RunnerWarmingUp',
      { everyMs: 5 })
    const start = performance.now()
    await until('the end of the warmup',
      async () => (await report(node, 'test/stuck')).statusKind === 'RunnerFailed', { everyMs: 5 })
    return secondsSince(start)
  })()
  await ready(node, 'test/ok')
  t.equal((await streamed(node, TTS, does('test/ok', 'count', { chunks: 1 }))).last?.header.kind, 'completed',
    'the node dispatches meanwhile')
  const seconds = await warming
  t.match(node.child.stderr() + node.child.stdout(), /CRITICAL/, 'with a CRITICAL line')
  t.ok(runnerLogs(node.home).some(({ text }) =>
    /CRITICAL warmup of test\/stuck did not finish within 3 s/.test(text)))
  figure(t, 'T-R04', seconds >= WARMUP_SECONDS - 0.5 && inTime(seconds, WARMUP_SECONDS + 2), { seconds })

  await until('the runner that exits is given up',
    async () => (await report(node, 'test/exits')).statusKind === 'RunnerFailed', { seconds: 30 })
  const { instanceFailures } = (await ask(node, '/state')).json as { instanceFailures: { modelId: string,
    errorCode: string, errorMessage: string }[] }
  const failures = instanceFailures.filter((f) => f.modelId === 'test/exits')
  t.equal(failures.length, 1, 'one failure, recorded once')
  t.match(failures[0], { errorCode: 'load_failed', errorMessage: /exited with code 3/ })
  t.equal(instanceFailures.filter((f) => f.modelId === 'test/stuck').length, 1)
  await sleep(pick(2000, 62_000))
  const { restarts, pid } = await report(node, 'test/exits')
  t.equal(restarts, 2, 'three tries, and no fourth')
  t.equal((await report(node, 'test/stuck')).restarts, 0, 'a wedge is not tried again')
  t.ok(pid === null || !alive(pid))
  t.equal(node.child.stdout().split('"msg":"a runner failed"').length, 3)
  const refused = await ask(node, '/v1/capabilities/stream',
    { body: call(node, TTS, does('test/exits', 'count')) })
  t.match([refused.status, refused.json],
    [503, { error: { reason: 'no_instance', details: { brokenLink: 'runner', remedy: String } } }])
  const readyz = await ask(node, '/readyz')
  t.match([readyz.status, readyz.text], [503, /test\/exits/], '/readyz names it')
  t.equal((await streamed(node, TTS, does('test/ok', 'count', { chunks: 1 }))).last?.header.kind, 'completed',
    'and the node dispatches on')
  figure(t, 'T-R03', t.passing(), { attempts: restarts + 1, failures: failures.length })
})
