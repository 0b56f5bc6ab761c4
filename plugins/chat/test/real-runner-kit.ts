/** The plugin with real runners: processes that have loaded a model with the built engine. */
import '../../runners/test/process-plain-spawn.js'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { systemClock, type EngineDecl, type ModelCard } from '../../../kernel/index.js'
import { startPlugin, type Rig, type TestContext } from '../../../kernel/testing/index.js'
import { manifest } from '../../llama-cpp/manifest.js'
import { GGUF_ENGINE, LLAMA_SERVER } from '../../llama-cpp/engine.js'
import { createRunners } from '../../runners/index.js'
import { createSupervisor } from '../../runners/process/supervisor.js'
import { InstanceService, RunnersService, type Bundle, type RunnerStatus } from '../../runners/service.js'
import { machine, soloInstance } from '../../runners/test/samples.js'
import plugin from '../index.js'

const built = new URL('../../../dist/plugins/llama-cpp/embedded/index.js', import.meta.url)
/** Value for a test's `skip` option: false, or the reason. A runner cannot load TypeScript. */
export const withoutBuild = existsSync(built) ? false : 'needs the built engine: npm run build'

/** The node and its runner. */
export interface RealRunner {
  rig: Rig
  url: string
  /** Process id of the current runner; 0 for none. */
  pid (): number
  /** Resolves when the model serves. */
  ready (): Promise<void>
}

/** Starts the plugin and places the model; `onStatus` gets every status of its runner. */
export async function startReal (
  t: TestContext, { card, directory, onStatus = () => {} }: {
    card: ModelCard, directory: string, onStatus?: (status: RunnerStatus, pid: () => number) => void
  }
): Promise<RealRunner> {
  const library = { ...LLAMA_SERVER.otherwise, module: built.href }
  const program = { ...LLAMA_SERVER, otherwise: library }
  const decl: EngineDecl = { ...manifest.engines[GGUF_ENGINE], program }
  const engine = { name: GGUF_ENGINE, owner: 'llama-cpp', decl }
  const bundle: Bundle = {
    engine: () => engine,
    engines: () => [engine],
    model: (id) => id === card.modelId ? { card, directory } : undefined,
    models: () => [{ card, directory }],
    cardReaders: () => []
  }
  const watched: typeof createSupervisor = (options) => {
    const supervisor = createSupervisor({
      ...options,
      onStatus (status) {
        options.onStatus(status)
        onStatus(status, () => pidOf(supervisor.report()))
      }
    })
    return supervisor
  }
  const files = machine({ hasPackage: () => true })
  const runners = createRunners({ createSupervisor: watched, files, uid: process.getuid?.() ?? 0, bundle })
  const rig = await startPlugin(t, plugin, { plugins: [runners], clock: systemClock })
  // An open port keeps the test process alive, because the plugin's timers are unref'd.
  const url = await rig.listen()
  const { localNodeId: nodeId } = (await rig.inject({ url: '/state' })).json() as { localNodeId: string }
  const ids = { instanceId: randomUUID(), runnerId: randomUUID(), nodeId }
  await rig.service(InstanceService).place(soloInstance(ids, card), { force: true })
  const service = rig.service(RunnersService)
  return {
    rig, url,
    pid: () => pidOf(service.reports()[0]),
    async ready () {
      while (!service.models('completions').some((model) => model.ready)) {
        await new Promise((resolve) => { setImmediate(resolve) })
      }
    }
  }
}

/** Throws if there is no process, because a signal to pid 0 would hit the test itself. */
function pidOf (report: { readonly pid: number | null } | undefined): number {
  if (report?.pid == null) throw new Error('the runner has no process')
  return report.pid
}
