/**
 * Engine `llama-server`: runs GGUF models with llama.cpp's server, an external program. Each runner process
 * has one server as its child, with a private socket and key. If a model is spread over several nodes, this
 * server is the driver, and runners on the other nodes are its donors (donor.ts).
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import {
  EngineError, type EngineEnv, type EngineModule, type EngineSession, type ModelCard, type ModelSpec
} from '../../../kernel/api/engine.js'
import { readGguf } from '../cards/gguf.js'
import { templateOf } from '../text/source.js'
import { findServer } from './binary.js'
import { draftMethodOf, rpcOf, sizesOf, splitOf, type RpcPlan } from './command-line.js'
import { startDonor } from './donor.js'
import { LOOPBACK, type EngineParts, type Clock } from '../../runners/openai/program.js'
import { LlamaServer } from './server.js'
import { LlamaSession } from './session.js'

/** The real clock. Its timers are unreferenced, so that they do not keep the process alive. */
const SYSTEM: Clock = {
  now: () => Number(process.hrtime.bigint() / 1_000_000n),
  pause: async (ms) => { await delay(ms, undefined, { ref: false }) }
}

const die = (error: Error): void => { setImmediate(() => { throw error }) }

/** Writes a line from llama.cpp to the runner's stderr, which goes to a file of limited size. */
const echo = (line: string): void => { process.stderr.write(`llama.cpp: ${line}\n`) }

/** The card's model file, or the first file of a split model. @throws EngineError model_invalid */
export function modelFile ({ modelId, files }: ModelCard): string {
  const models = files.filter(({ path }) => /\.gguf$/i.test(path))
  const weights = models.filter(({ role }) => role === 'weights')
  const [first] = (weights.length > 0 ? weights : models).map(({ path }) => path).sort()
  if (first !== undefined) return first
  throw new EngineError('model_invalid', `${modelId} has no .gguf file, which llama-server needs`)
}

/**
 * Starts an rpc-server for the driver's own rank in a tensor split without a GPU, because llama.cpp can use a
 * CPU in a tensor split only through an rpc-server.
 */
const ownRank = async (spec: ModelSpec, env: EngineEnv, parts: EngineParts): Promise<EngineSession> =>
  await startDonor({ ...spec, options: { ...spec.options, split: undefined } }, env, parts)

const withOwn = (plan: RpcPlan, own: EngineSession): RpcPlan => ({
  ...plan,
  donors: [{ address: `${LOOPBACK}:${Number(own.info()['port'])}`, layers: plan.layers }, ...plan.donors]
})

export function llamaEngine (parts: EngineParts): EngineModule {
  return {
    async load (spec, env): Promise<EngineSession> {
      const { card, directory, threads, options } = spec
      if (options['lends'] === true) return await startDonor(spec, env, parts)
      const told = rpcOf(options)
      const own = told?.tensor === true && spec.backend === 'cpu' ? await ownRank(spec, env, parts) : null
      const rpc = told === null || own === null ? told : withOwn(told, own)
      const model = join(directory, modelFile(card))
      const ranks = card.tasks.includes('rerank')
      const embeds = ranks || card.tasks.includes('embeddings')
      const sizes = sizesOf(spec, embeds)
      const binary = await findServer(options)
      const { modelId, totalBytes: modelBytes } = card
      const beside = (role: string): string | undefined => {
        const file = card.files.find((one) => one.role === role)
        return file === undefined ? undefined : join(directory, file.path)
      }
      const source = await templateOf(spec)
      // The template's path is relative to the working folder, which only this runner uses.
      const template = source === '' ? undefined : 'chat-template.jinja'
      if (template !== undefined) await writeFile(template, source)
      const drafter = beside('assistant')
      const server = await LlamaServer.start({
        mmproj: beside('vision_weights'),
        drafter: drafter === undefined ? undefined
          : { path: drafter, way: draftMethodOf(await readGguf(drafter)) },
        own, split: splitOf(options), binary, model, template, modelId, modelBytes, threads,
        backend: spec.backend, sizes, embeds, ranks, rpc, env, ...parts
      })
      const session = new LlamaSession({ server, spec, sizes, embeds })
      try {
        await server.ready()
        await session.greet()
      } catch (error) {
        await server.close()
        throw error
      }
      server.program.dieWithIt()
      return session
    }
  }
}

export default llamaEngine({ clock: SYSTEM, die, echo })
