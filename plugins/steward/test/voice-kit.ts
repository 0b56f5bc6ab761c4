import {
  definePlugin, OwnApiService, type LocalApi, type LocalRequest, type Plugin, type ModelCard
} from '../../../kernel/index.js'
import { fake, startPlugin, type Rig, type TestContext } from '../../../kernel/testing/index.js'
import type { Fact } from '../../../kernel/cli/index.js'
import { PlacementService, type RoleStatus, type SystemRole } from '../../placement/service.js'
import { RunnerWorkService, type EndedTask } from '../../runners/service.js'
import { ModelsService } from '../../staging/service.js'
import steward from '../index.js'

/** The fields of a chat request that the steward sends. */
export interface ChatBody {
  model: string
  messages: { role: string, content?: string | null, tool_calls?: unknown[], tool_call_id?: string }[]
  tools?: { function: { name: string, description: string, parameters: object } }[]
  tool_choice?: string
  max_tokens?: number
}

/** The next answer from a scripted model: text, tool calls, or the status of a refusal. */
export type Said = string | [tool: string, args: object | string][] | number
/** Answers a chat request; null leaves it without an answer. */
export type Script = (body: ChatBody, turn: number) => Said | null

export const card = (modelId: string, bytes: number, tools = true): ModelCard => ({
  modelId, revision: 'r1', title: modelId, description: '', tasks: ['chat'], family: 'llama', engine: 'lm',
  backends: ['cpu'], files: [], totalBytes: bytes, nLayers: 10, hiddenSize: 64, heads: 8, kvHeads: 8,
  headSize: 0, contextLength: 4096, supportsTensor: false, companions: [], licence: 'MIT', languages: ['en'],
  quantization: null, voices: [], defaults: {}, support: { tools: tools ? 'given to it' : 'no effect: none' }
})

export const KEPT: RoleStatus = { instanceId: 'I1', modelId: 'acme/chat', own: true, state: 'ready' }

export interface VoiceRig extends Rig {
  kept: RoleStatus | null
  keeping: SystemRole | null
  replaced: { instanceId: string, because: object }[]
  chats: (ChatBody & { by: string, authorities: string[] })[]
  script: Script
  stopped: Set<string>
  ended: (task: Partial<EndedTask>) => void
  status (): Promise<Record<string, unknown>>
}

export interface VoiceOptions {
  settings?: object
  cards?: ModelCard[]
  script?: Script
  kept?: RoleStatus | null
  /** Plugins besides the steward, such as one with tools. */
  plugins?: Plugin[]
  /** Answers from other routes, by path. */
  looks?: (path: string) => unknown
}

/** A plugin with one tool for each key, which returns the facts given for it. */
export function knowing (found: Record<string, readonly Fact[]>): Plugin {
  const args = { type: 'object', additionalProperties: true, properties: {} } as const
  const run = (facts: readonly Fact[]): object => ({ run: async () => ({ facts, unknown: [] }) })
  return definePlugin({
    name: 'knowing', version: '1.0.0', kernel: '^1.0.0', summary: 'Knows what a test tells it.',
    tools: Object.fromEntries(Object.entries(found).map(([name, facts]) =>
      [name, { summary: `Finds ${name}.`, args, load: async () => ({ default: run(facts) }) }]))
  }, () => ({}))
}

/** The steward with a scripted model instead of a real one, and stubs for its placement. */
export async function startVoiceRig (t: TestContext, options: VoiceOptions = {}): Promise<VoiceRig> {
  const made = {
    kept: options.kept === undefined ? KEPT : options.kept, keeping: null as SystemRole | null,
    replaced: [] as VoiceRig['replaced'],
    chats: [] as VoiceRig['chats'], script: options.script ?? (() => 'pong'), stopped: new Set<string>(),
    ended: (() => {}) as VoiceRig['ended']
  }
  const cards = options.cards ?? [card('acme/chat', 5)]
  const ask: LocalApi['ask'] = async ({ path, body, caller, signal }: LocalRequest) => {
    if (path !== '/v1/chat/completions') {
      const found = options.looks?.(path)
      return found === undefined
        ? { status: 404, text: '{"error":{"message":"no such path","reason":"not_found","code":404}}' }
        : { status: 200, text: JSON.stringify(found) }
    }
    const chat = body as ChatBody
    made.chats.push({ ...structuredClone(chat), by: caller.id, authorities: [...caller.authorities] })
    const said = made.script(chat, made.chats.length - 1)
    if (said === null) {
      return await new Promise((_, reject) => {
        signal.addEventListener('abort', () => { reject(signal.reason as Error) })
      })
    }
    if (typeof said === 'number') return { status: said, text: '{}' }
    const message = typeof said === 'string'
      ? { role: 'assistant', content: said }
      : {
          role: 'assistant', content: null,
          tool_calls: said.map(([name, args], i) => ({
            id: `c${i}`, type: 'function',
            function: { name, arguments: typeof args === 'string' ? args : JSON.stringify(args) }
          }))
        }
    return { status: 200, text: JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }] }) }
  }
  const rig = await startPlugin(t, steward, {
    settings: { steward: { model: 'acme/chat', ...options.settings } },
    plugins: options.plugins ?? [],
    fakes: [
      fake(OwnApiService, { ask }),
      fake(ModelsService, {
        cards: () => cards.map((one) => ({ card: one, origin: 'staged' as const })),
        allCopies: () => new Map(cards.map(({ modelId }) =>
          [modelId, [{ nodeId: 'n', nodeName: 'n', kind: 'staged', live: true }]]))
      }),
      fake(RunnerWorkService, {
        onTask (fn) {
          made.ended = fn as never
          return () => {}
        }
      }),
      fake(PlacementService, {
        keep (keeping) {
          made.keeping = keeping
          return () => { made.keeping = null }
        },
        kept: () => made.kept,
        async replace (instanceId, because) {
          made.replaced.push({ instanceId, because })
          made.kept = { ...KEPT, instanceId: 'I2', state: 'starting' }
        },
        isStopped: (modelId) => made.stopped.has(modelId)
      })
    ]
  })
  return Object.assign(made, rig, {
    status: async () => (await rig.inject({ url: '/v1/steward' })).json<Record<string, unknown>>()
  })
}
