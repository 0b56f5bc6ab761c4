/** A model that is spread opens ports without a key: nodes take part only where their operator agreed. */
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { opensPorts } from '../donors/role.js'
import { launchOptions } from '../instances/launch.js'
import type { LaunchParts } from '../instances/launch.js'
import { card } from './samples.js'
import type { Role } from '../donors/role.js'

const quiet = (): void => {}
const model = { card: card('acme/gguf'), directory: '/models/acme/gguf' }
const driver = (...donors: string[]): Role => ({
  kind: 'driver', layers: 1, donors: donors.map((nodeId) => ({ nodeId, runnerId: `r-${nodeId}`, layers: 1 }))
})
const donor: Role = { kind: 'donor', driverNode: 'n0', card: model.card }

/** What launching in this role comes to. */
function launched (role: Role | null, agreed: boolean): unknown {
  const engine = {
    name: 'onnx-tts', owner: 'x', decl: { summary: '', module: 'file:///engine.js', backends: ['cpu'] }
  }
  const parts: Partial<LaunchParts> = {
    clock: manualClock(), log: { debug: quiet, info: quiet, warn: quiet, error: quiet, fatal: quiet },
    home: '/nowhere', env: {},
    bundle: { engine: () => engine } as unknown as LaunchParts['bundle'],
    config: {
      threads: 1, max_concurrent: 1, max_queued: 1, confine: false, engine_options: {},
      rpc_for_every_user: agreed
    },
    backend: () => ({ backend: 'cpu' }) as ReturnType<LaunchParts['backend']>,
    binary: () => undefined, model: () => model, role: () => role, plan: () => null,
    logs: { output: quiet }
  }
  try {
    const { spec } = launchOptions(parts as LaunchParts,
      { instanceId: 'I', runnerId: 'r', modelId: 'acme/gguf' })
    return spec.card.modelId
  } catch (error) {
    return error
  }
}

t.test('a part of a spread model is refused unless the operator agreed', (t) => {
  const refusal = { errorCode: 'no_backend', message: /every user.*runners\.rpc_for_every_user true/ }
  t.match(launched(donor, false), refusal)
  t.match(launched(driver('n1'), false), refusal)
  for (const role of [donor, driver('n1')]) t.equal(launched(role, true), 'acme/gguf')
  for (const role of [null, driver()]) t.equal(launched(role, false), 'acme/gguf', 'it opens nothing')
  t.strictSame([donor, driver('n1'), driver(), null].map(opensPorts), [true, true, false, false])
  t.end()
})
