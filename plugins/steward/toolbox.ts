import {
  deadline, raceAbort, type Caller, type Clock, type Declarations, type JsonSchema, type Manifest,
  type LocalApi, type ToolDecl
} from '../../kernel/index.js'
import { lookingOnce, type Fact, type Finding, type Tool, type ToolContext } from '../../kernel/cli/index.js'
import type { MadeCall, ToolCall } from './types.js'

/** Limit on tool calls per turn. */
export const CALLS_MOST = 8
/** Timeout of a tool call in ms. */
const CALL_MS = 5000
/** Limit on characters of an API answer that a tool reads. */
const READ_MOST = 8 * 1024 * 1024
/** Limits per call: number of facts, and characters of each sentence. */
const FACTS_MOST = 40
const TEXT_MOST = 600

export interface ToolboxParts {
  readonly api: LocalApi
  readonly declarations: Declarations
  readonly clock: Clock
  checker (schema: JsonSchema): (value: unknown) => string | null
}

export interface NamedTool extends ToolDecl { readonly name: string }

export function toolsOf (manifests: readonly Manifest[]): NamedTool[] {
  return manifests.flatMap(({ tools = {} }) =>
    Object.entries(tools).map(([name, tool]) => ({ ...tool, name })))
}

/** The tool calls of one turn, made on behalf of its caller. Identical API reads run only once. */
export class TurnTools {
  readonly made: MadeCall[] = []
  readonly results: { readonly call: ToolCall, readonly finding: Finding }[] = []
  /** Findings by call, so that identical calls run only once. */
  readonly #found = new Map<string, Promise<Finding>>()
  readonly #parts: ToolboxParts
  readonly #signal: AbortSignal
  readonly #context: ToolContext

  constructor (parts: ToolboxParts, caller: Caller, signal: AbortSignal) {
    this.#parts = parts
    this.#signal = signal
    this.#context = {
      look: lookingOnce((path) => this.#ask(path, caller)), nowMs: parts.clock.now(),
      declared: () => parts.declarations.whole()
    }
  }

  get context (): ToolContext { return this.#context }

  has (tool: string): boolean { return this.#tool(tool) !== undefined }

  get plugins (): string[] { return this.#parts.declarations.manifests.map(({ name }) => name) }

  /** Runs each call only once, and returns its findings. Errors and timeouts go into `unknown`. */
  async run (asked: ToolCall): Promise<Finding> {
    const key = JSON.stringify([asked.tool, asked.args])
    const finding = this.#found.get(key) ?? this.#made(asked)
    this.#found.set(key, finding)
    return await finding
  }

  async #made (call: ToolCall): Promise<Finding> {
    const problem = this.#problemOf(call)
    if (problem !== null) return { facts: [], unknown: [problem] }
    const finding = await this.#run(call)
    this.results.push({ call, finding })
    return finding
  }

  async #run ({ tool: name, args }: ToolCall): Promise<Finding> {
    const { clock } = this.#parts
    const startedMs = clock.mono()
    const call: MadeCall = { tool: name, args, tookMs: 0 }
    const index = this.made.push(call) - 1
    const late = (): Error => new Error(`no answer within ${CALL_MS / 1000} s`)
    const { signal, stop } = deadline(clock, CALL_MS, late, this.#signal)
    try {
      const tool = (await this.#tool(name)!.load()).default as Tool
      return bounded(await raceAbort(tool.run(this.#context, args), signal))
    } catch (error) {
      this.#signal.throwIfAborted()
      const why = error instanceof Error ? error.message.split('\n')[0] : 'it failed'
      return { facts: [], unknown: [`${name} could not look: ${why}.`] }
    } finally {
      stop()
      this.made[index] = { ...call, tookMs: Math.round(clock.mono() - startedMs) }
    }
  }

  #tool (name: string): NamedTool | undefined {
    return toolsOf(this.#parts.declarations.manifests).find((tool) => tool.name === name)
  }

  #problemOf ({ tool, args }: ToolCall): string | null {
    const known = this.#tool(tool)
    if (known === undefined) {
      return `Nothing here can look up ${tool}: ` +
        'the plugin that has it is off. `svc plugin ls` shows which are.'
    }
    if (this.made.length >= CALLS_MOST) return `${tool} was not asked: a turn has ${CALLS_MOST} calls.`
    const problem = this.#parts.checker(known.args)(args)
    return problem === null ? null : `${tool} was asked wrongly: ${problem}`
  }

  async #ask (path: string, caller: Caller): Promise<{ status: number, text: string }> {
    const answer = await this.#parts.api.ask({ path, caller, signal: this.#signal })
    if (answer.text.length <= READ_MOST) return answer
    throw new Error(`${path} answers with over ${READ_MOST / 1024 / 1024} MiB`)
  }
}

function bounded ({ facts, unknown }: Finding): Finding {
  const short = (text: string): string => text.length <= TEXT_MOST ? text : `${text.slice(0, TEXT_MOST)}…`
  return {
    facts: facts.slice(0, FACTS_MOST).map((fact): Fact => ({ ...fact, text: short(fact.text) })),
    unknown: unknown.slice(0, FACTS_MOST).map(short)
  }
}
