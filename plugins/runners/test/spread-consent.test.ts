/** A spread model opens ports without authentication: nodes take part only if their operator agreed. */
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { opensPorts, roleOf } from '../donors/role.js'
import { launchOptions, type LaunchParts } from '../instances/launch.js'
import { changed } from '../instances/shapes.js'
import type { Instance } from '../instances/sections.js'
import { star } from './donors-kit.js'
import { card } from './samples.js'

const quiet = (): void => {}
const model = { card: card('acme/gguf'), directory: '/models/acme/gguf' }

/** Launches the node's part of an instance; returns the model or the refusal. */
function launched (
  instance: Instance, nodeId: string, agreed: boolean, problem: string | null = null
): unknown {
  const engine = {
    name: 'onnx-tts', owner: 'x', decl: { summary: '', module: 'file:///engine.js', backends: ['cpu'] }
  }
  const parts: Partial<LaunchParts> = {
    clock: manualClock(), log: { debug: quiet, info: quiet, warn: quiet, error: quiet, fatal: quiet },
    node: { home: '/nowhere', nodeId }, env: {},
    bundle: { engine: () => engine, model: () => model } as unknown as LaunchParts['bundle'],
    config: {
      threads: 1, max_concurrent: 1, max_queued: 1, confine: false, engine_options: {}, backends: {},
      rpc_for_every_user: agreed
    },
    models: undefined,
    detection: { runtimes: { cuda: false, webgpu: false, nvidiaDevice: false }, binary: () => undefined,
      programs: () =>
        ({ 'llama-server': { gangs: { '': { version: '1', problem } }, options: () => ({}) } as never }),
      without: () => null, devices: () => null },
    instances: { get: () => instance },
    drivers: { prepare: async () => {}, plan: () => null, begins: () => {} },
    logs: { output: quiet }
  }
  try {
    const { spec } = launchOptions(parts as LaunchParts,
      { instanceId: 'I', runnerId: 'r', modelId: 'acme/gguf' })
    return spec.options['chatTemplate'] ?? spec.card.modelId
  } catch (error) {
    return error
  }
}

t.test('a part of a spread model is refused unless the operator agreed', (t) => {
  const refusal = { errorCode: 'no_backend', message: /every user.*runners\.rpc_for_every_user true/ }
  const spread = star([1, 1])
  const alone = star([1])
  const ring = star([1, 1], 'RingInstance')
  for (const nodeId of ['n0', 'n1']) {
    t.match(launched(spread, nodeId, false), refusal)
    t.equal(launched(spread, nodeId, true), 'acme/gguf')
  }
  t.match(launched(ring, 'n0', false), refusal)
  t.equal(launched(ring, 'n1', true), 'acme/gguf')
  t.match(launched(ring, 'n1', true, 'no network'),
    { errorCode: 'no_backend', message: 'llama-server: no network' })
  t.equal(launched(alone, 'n0', false), 'acme/gguf', 'it opens nothing')
  t.strictSame([roleOf(spread, 'n1'), roleOf(spread, 'n0'), roleOf(alone, 'n0'), null].map(opensPorts),
    [true, true, false, false])
  // The template is an object, because a runner may read any file whose path is a string option.
  const given = changed(alone, { placement: { chatTemplate: '/{{ messages }}' } as never })
  t.strictSame(launched(given, 'n0', false), { source: '/{{ messages }}' })
  t.end()
})
