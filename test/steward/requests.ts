/** Scenarios with failed requests, asked about by id or by model; two nodes. */
import { does, report, TTS } from '../node/engine.js'
import { ask, call, open, refusal, readBody } from '../node/http.js'
import { decodeFrames } from '../../plugins/capabilities/frames/frames.js'
import { openFrames, placeOn, type Open } from '../node/instances-kit.js'
import { until } from '../node/kit.js'
import { answers, removeAll, startRig, type Rig } from './rig.js'
import { group, type Fault, type Scenario } from './types.js'

const MODEL = 'acme/voice'
/** A third failure within a minute keeps a runner from being restarted, so these models take turns. */
const OTHERS = ['acme/tiny', 'acme/reader'] as const
const [TINY, READER] = OTHERS

interface Failed { model: string, id: string, reason: string }

/** Runs a request for a model to its end; returns its command id and failure reason. */
async function failing (rig: Rig, model: string, what: string, options: object = {},
  extra: Record<string, unknown> = {}): Promise<Failed> {
  const { node } = rig.n(1)
  const response = await open(node, '/v1/capabilities/stream', {
    body: call(node, TTS, does(model, what, options), extra),
    headers: { accept: 'application/vnd.svc.frames' } })
  const id = String(response.headers['x-svc-command-id'])
  if (response.statusCode !== 200) {
    const json = JSON.parse((await readBody(response)).toString()) as unknown
    return { model, id, reason: refusal({ json })?.reason ?? 'none' }
  }
  let reason = 'none'
  for await (const { header } of decodeFrames(response)) reason = header.error?.reason ?? reason
  return { model, id, reason }
}

/** Waits for the failure in the event log; returns a question about it. */
async function told (rig: Rig, { model: of, id, reason }: Failed, codes: string[],
  says: RegExp): Promise<Fault> {
  await until(`the failure of ${id} to be known`, async () =>
    (await ask(rig.n(1).node, '/events?kinds=TaskFailed&limit=1000')).text.includes(id),
  { seconds: 20 }).catch(() => {})
  for (const model of [MODEL, ...OTHERS]) await answers(rig.members, model)
  return {
    at: rig.members,
    ask: [`why did the request ${id} fail?`, `what became of ${id}`, `${id} ${reason}?`],
    truth: { kind: 'fault', causes: [{ codes: [reason, ...codes], names: [of], says }] }
  }
}

const scenarios: Scenario<Rig>[] = [
  {
    name: 'a request whose runner was killed',
    break: async (rig) => {
      const opened = await openFrames(rig.n(1).node, MODEL)
      process.kill((await report(rig.n(2).node, MODEL)).pid!, 'SIGKILL')
      const { reason } = await opened.end
      return await told(rig, { model: MODEL, id: opened.commandId, reason: reason! },
        ['runner_failed', 'runner_died'],
        /instance_lost|runner (died|was|ended)|lost|SIGKILL/i)
    }
  },
  {
    name: 'a request that took too long',
    break: async (rig) => {
      const failed = await failing(rig, MODEL, 'late', { delayMs: 60_000 }, { timeout_seconds: 1 })
      return await told(rig, failed, ['request_timeout', 'timeout'], /timeout|deadline|too long|in time/i)
    }
  },
  {
    name: 'a request whose engine threw',
    break: async (rig) => await told(rig, await failing(rig, MODEL, 'throws'),
      ['provider_error', 'engine_failed'],
      /provider_error|engine|threw|failed/i)
  },
  {
    name: 'a request whose engine gave nonsense',
    break: async (rig) => await told(rig, await failing(rig, MODEL, 'offSchema'), ['invalid_result'],
      /invalid_result|schema|does not allow/i)
  },
  {
    name: 'a request whose runner ended itself',
    break: async (rig) => await told(rig, await failing(rig, TINY, 'exit'), ['runner_failed', 'runner_died'],
      /instance_lost|ended|exit/i)
  },
  {
    name: 'a request whose runner hung',
    break: async (rig) => await told(rig, await failing(rig, READER, 'block', {}, { timeout_seconds: 60 }),
      ['runner_hung', 'runner_failed'], /instance_lost|hang|hung|silent|no sign|react/i)
  },
  {
    name: 'a runner that was paused from outside',
    break: async (rig) => {
      const opened = await openFrames(rig.n(1).node, MODEL)
      process.kill((await report(rig.n(2).node, MODEL)).pid!, 'SIGSTOP')
      const { reason } = await opened.end
      return await told(rig, { model: MODEL, id: opened.commandId, reason: reason! },
        ['runner_hung', 'runner_failed'],
        /instance_lost|hang|hung|silent|no sign|react/i)
    }
  },
  {
    name: 'a runner that grew past its memory',
    break: async (rig) => {
      const failed = await failing(rig, READER, 'grow', { mebibytes: 16 })
      const fault = await told(rig, failed, ['out_of_memory', 'runner_memory', 'runner_failed'],
        /memory|MiB|grew/i)
      return { ...fault, mend: { command: /memory_limit_mb|svc logs|svc why/, run: async () => {},
        holds: async () => { await answers(rig.members, MODEL) } } }
    }
  },
  {
    name: 'the newest failure of a model, without an id',
    break: async (rig) => {
      const { reason } = await failing(rig, TINY, 'exit')
      await answers(rig.members, TINY)
      return {
        at: rig.members, ask: ['why did the last request of acme/tiny fail?',
          'acme/tiny gave me an error just now, why?',
          'last eror of acme/tiny'],
        truth: { kind: 'fault', causes: [{ codes: [reason, 'runner_failed', 'request_failed', 'last_failure'],
          names: [TINY],
          says: /instance_lost|ended|exit/i }] }
      }
    }
  },
  {
    name: 'more requests than may wait',
    break: async (rig) => {
      const opened: Open[] = []
      for (let n = 0; n < 2; n++) opened.push(await openFrames(rig.n(1).node, MODEL))
      const held = open(rig.n(1).node, '/v1/audio/speech', { body: speech })
      await until('a refusal', async () => {
        const answer = await ask(rig.n(1).node, '/v1/audio/speech', { body: speech })
        return answer.status === 429
      })
      const over = async (): Promise<void> => {
        for (const each of opened) each.leave()
        await readBody(await held).catch(() => {})
        await until('it to answer again', async () =>
          (await ask(rig.n(1).node, '/v1/audio/speech', { body: speech })).status === 200)
      }
      return {
        at: rig.members, repair: over,
        ask: ['why do clients of acme/voice get 429?', 'acme/voice says overloaded, what can I do',
          '429 acme/voice'],
        truth: { kind: 'fault', causes: [{ codes: ['overloaded', 'queue_full', 'model_busy'], names: [],
          says: /overload|busy|at once|queue|too many/i }] },
        mend: { command: /max_concurrent|max_queued|calls_at_once|svc place/,
          run: async () => { await over() },
          holds: async () => { await answers(rig.members, MODEL) } }
      }
    }
  },
  {
    name: 'a word of an error: stale revision',
    break: async (rig) => {
      const answer = await ask(rig.n(1).node, '/v1/capabilities/call', { body: {
        capability_id: 'tts', version: '1.0.0', descriptor_revision: 'stale',
        payload: { model: MODEL, text: 'x' } } })
      if (answer.status !== 409) throw new Error(`${answer.status} ${answer.text}`)
      return {
        at: rig.members, ask: ['why do I get 409 revision_mismatch?',
          'a call was refused with revision_mismatch, what does it mean',
          'revision_mismatch'],
        truth: { kind: 'fact', says: [/revision/i, /capabilit/i] }
      }
    }
  },
  {
    name: 'healthy: after all these failures',
    break: async (rig) => {
      await answers(rig.members, MODEL)
      return { at: rig.members, ask: ['is acme/voice fine now?', 'is anything wrong at the moment?',
        'all god?'],
      truth: { kind: 'healthy' },
      repair: async () => { for (const model of [MODEL, ...OTHERS]) await removeAll(rig, model) } }
    }
  }
]

const speech = { model: MODEL, input: 'x', instructions: JSON.stringify({ do: 'count', chunks: 1 }) }

export const requests = group<Rig>({
  name: 'requests', scenarios,
  needs: async (t) => {
    const rig = await startRig(t, { nodes: 2,
      plugins: { runners: { memory_limit_mb: 384, max_concurrent: 2, max_queued: 1 } } })
    for (const model of [MODEL, ...OTHERS]) await placeOn(rig, rig.n(2), model)
    const on = await ask(rig.n(1).node, '/v1/tracing', { method: 'PUT', body: { enabled: true } })
    if (on.status !== 200) throw new Error(on.text)
    return rig
  }
})
