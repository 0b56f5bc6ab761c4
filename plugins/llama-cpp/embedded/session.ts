/** Runs the tasks for a loaded language model. */
import type { EngineChunk, EngineSession, EngineTask, SpanSink } from '../../../kernel/api/engine.js'
import type { Sizes } from '../server/command-line.js'
import { fieldsOf, listOf, type Fields, numberOf } from '../../runners/language/json.js'
import { contextExceeded, unknownTask, invalid } from '../../runners/language/refusals.js'
import { OutputReader, MARKERS } from '../text/parse/output.js'
import { reasoningMarkers, reasonings } from '../text/reasoning.js'
import { decodeAll, textStream } from '../text/stream.js'
import { markersOf, toolFormats } from '../text/tools/index.js'
import { withSchemaCheck } from '../../runners/language/check.js'
import { requiresCall } from '../../runners/language/structure.js'
import { TOOLS_LEFT_OUT, warmCompiler, withoutTools } from '../structure.js'
import { Answer, newCallId, Outbox } from './answer.js'
import { constraintOf, type Constraint } from './constraint.js'
import type { Decoder } from './decoder.js'
import type { Prompt, Prompts } from './prompt.js'
import { TokenSampler, type SamplerParts } from './sampler.js'
import type { Vocabulary } from './vocabulary.js'
import { randomInt } from 'node:crypto'
import { SAMPLING, type Parameter } from '../../runners/language/sampling.js'
import type { SamplerConfig } from './binding.js'
import { biasOf, numberAt } from '../server/request.js'
import { needsServer } from './refusals.js'

const WARMUP_TOKENS = 4

export interface SessionParts {
  modelId: string, defaults: Fields, sizes: Sizes, release: string, vocabulary: Vocabulary
  prompts: Prompts, decoder: Decoder, sampling: SamplerParts
  now: () => number
  close: () => Promise<void>
}

interface Asked { prompt: Prompt, constraint: Constraint, isChat: boolean, payload: Fields }

export class TextSession implements EngineSession {
  private readonly parts: SessionParts

  constructor (parts: SessionParts) { this.parts = parts }

  async warmup (): Promise<void> {
    this.parts.prompts.warm()
    warmCompiler()
    const payload = { prompt: 'warm', max_tokens: WARMUP_TOKENS, temperature: 0 }
    const task = { kind: 'completion', payload }
    for await (const chunk of this.run(task, new AbortController().signal)) void chunk
  }

  async * run ({ kind, payload, trace }: EngineTask, signal: AbortSignal): AsyncGenerator<EngineChunk> {
    if (kind === 'tokenize') yield { payload: this.tokenized(payload) }
    else if (kind === 'detokenize') yield { payload: this.detokenized(payload) }
    else if (kind === 'chat') yield * this.write(this.chat(payload), signal, trace)
    else if (kind === 'completion' || kind === 'completions') {
      yield * this.write(this.completion(payload), signal, trace)
    } else throw unknownTask(kind, 'chat, completion, tokenize and detokenize')
  }

  info (): Record<string, unknown> {
    const { sizes: { contextLength, slots }, release } = this.parts
    return { contextLength, answersAtOnce: slots, driver: 'the llama.cpp in svc', build: release }
  }

  async close (): Promise<void> { await this.parts.close() }

  private chat (payload: Fields): Asked {
    const { prompts, sizes: { contextLength } } = this.parts
    const prompt = prompts.read(payload)
    if (prompt.describesTools === true && prompt.ids.length >= contextLength && !requiresCall(payload)) {
      const { constraint, ...rest } = this.chat(withoutTools(payload))
      return { ...rest, constraint: { ...constraint, warnings: [...constraint.warnings, TOOLS_LEFT_OUT] } }
    }
    return { prompt, constraint: constraintOf(payload, prompt), isChat: true, payload }
  }

  private completion (payload: Fields): Asked {
    const ids = this.parts.vocabulary.read(payload['prompt'], 'prompt')
    const prompt: Prompt = { ids, tools: null, reasoning: null, thoughts: 'over' }
    return { prompt, constraint: constraintOf(payload, prompt), isChat: false, payload }
  }

  private async * write (
    asked: Asked, signal: AbortSignal, trace: SpanSink | undefined
  ): AsyncGenerator<EngineChunk> {
    const { modelId, sizes: { contextLength }, decoder, vocabulary, defaults } = this.parts
    const { ids } = asked.prompt
    if (ids.length === 0) throw invalid('the prompt is empty: there is nothing to continue', 'prompt')
    if (ids.length >= contextLength) throw contextExceeded(modelId, ids.length, contextLength)
    const facts = { defaults, contextLength, vocabularySize: vocabulary.table.size }
    const parameters = readParameters(asked.payload, facts)
    // If the consumer stops reading without aborting `signal`, `left` cancels the jobs.
    const left = new AbortController()
    const outbox = new Outbox(parameters.n)
    const { payload, constraint: { warnings } } = asked
    if (warnings.length > 0) outbox.push({ choices: [], warnings })
    const gone = AbortSignal.any([signal, left.signal])
    gone.addEventListener('abort', () => { outbox.fail(gone.reason) }, { once: true })
    for (const answer of this.answers(asked, parameters, outbox, gone, trace)) decoder.submit(answer)
    try {
      for await (const chunk of withSchemaCheck(outbox.read(), payload)) {
        if (signal.aborted) return
        yield { payload: { ...chunk } }
      }
    } catch (error) {
      if (!signal.aborted) throw error
    } finally { left.abort() }
  }

  private answers (
    asked: Asked, parameters: Parameters, outbox: Outbox, signal: AbortSignal, trace: SpanSink | undefined
  ): Answer[] {
    const { prompt: { ids }, constraint, payload, isChat } = asked
    const { sampling, sizes: { contextLength }, vocabulary, now } = this.parts
    const { n, stop, tops, logprobs, configOf } = parameters
    let isAdmitted = false
    const admitted = (): void => {
      if (!isAdmitted) outbox.push({ choices: [], usage: { prompt_tokens: ids.length } })
      isAdmitted = true
    }
    return Array.from({ length: n }, (_, index) => new Answer({
      index, prompt: ids, outbox, signal, trace, now, admitted,
      maxTokens: Math.min(parameters.maxTokens, contextLength - ids.length),
      sampler: new TokenSampler(sampling, configOf(index, ids), constraint.gbnf, logprobs ? { tops } : null),
      stream: textStream(vocabulary.table, stop, { continues: !isChat, markers: this.markers(asked) }),
      isEnd: (token) => vocabulary.isEnd(token), reader: isChat ? this.reader(asked) : null,
      calls: payload['parallel_tool_calls'] === false ? 1 : Infinity
    }))
  }

  /** Special tokens that the output parser needs as text; all others are removed from the answer. */
  private markers ({ constraint: { tools, reasoning }, isChat }: Asked): string[] {
    const own = [...tools === null ? [] : markersOf(toolFormats[tools]),
      ...reasoning === null ? [] : reasoningMarkers(reasonings[reasoning])]
    return isChat ? MARKERS.filter((marker) => own.includes(marker)) : []
  }

  private reader ({ constraint: { tools, reasoning }, prompt: { thoughts }, payload }: Asked): OutputReader {
    const functions = listOf(payload['tools']).map((tool) => fieldsOf(tool['function']))
    return new OutputReader({
      tools, reasoning, startsInReasoning: thoughts === 'inside', newId: newCallId,
      parameters: (name) => functions.find((one) => one['name'] === name)?.['parameters']
    })
  }

  private tokenized (payload: Fields): Record<string, unknown> {
    const { prompts, vocabulary, sizes: { contextLength } } = this.parts
    const tokens = payload['messages'] === undefined
      ? vocabulary.read(payload['prompt'], 'prompt', payload['add_special_tokens'] !== false)
      : prompts.read(payload).ids
    return { kind: 'tokens', tokens, count: tokens.length, context_length: contextLength }
  }

  private detokenized ({ tokens }: Fields): Record<string, unknown> {
    if (!Array.isArray(tokens)) throw invalid('tokens must be a list of token ids', 'tokens')
    const { vocabulary } = this.parts
    return { kind: 'text', text: decodeAll(vocabulary.table, vocabulary.read(tokens, 'tokens')) }
  }
}

type Named = Exclude<Parameter, 'seed'>
const SEEDS = 2 ** 32
const MAX_ANSWERS = 128
const MAX_TOP = 20

/** Fields that would change the answer and that only llama-server supports, each with an error message. */
const SERVER_FIELDS: Readonly<Record<string, string>> = {
  lora: 'does not support LoRA', id_slot: 'does not select slots', suffix: 'does not support infill',
  input_prefix: 'does not support infill', input_suffix: 'does not support infill',
  input_extra: 'does not support infill', samplers: 'does not reorder samplers',
  mirostat: 'does not support mirostat', typical_p: 'does not support typical_p',
  dynatemp_range: 'does not support dynamic temperature', xtc_probability: 'does not support XTC',
  dry_multiplier: 'does not support DRY', top_n_sigma: 'does not support top_n_sigma',
  ignore_eos: 'does not ignore the end token'
}

/** The parameters from a validated request, not including its prompt. */
interface Parameters {
  n: number, maxTokens: number, stop: string[], logprobs: boolean, tops: number
  seedOf: (index: number) => number
  /** The sampling parameters of answer `index`. Penalties also apply to the prompt's tokens. */
  configOf: (index: number, prompt: readonly number[]) => SamplerConfig
}

interface Facts { defaults: Fields, contextLength: number, vocabularySize: number }

/** @throws EngineError invalid_request */
function readParameters (payload: Fields, facts: Facts): Parameters {
  for (const [field, why] of Object.entries(SERVER_FIELDS)) {
    const value = payload[field]
    // Accept values that turn the feature off: 0, -1, an empty string and false.
    if (value != null && value !== 0 && value !== -1 && value !== '' && value !== false) {
      throw needsServer(field, why)
    }
  }
  const seed = numberAt(payload, 'seed', SAMPLING.seed) ?? randomInt(SEEDS)
  const seedOf = (index: number): number => ((seed + index) % SEEDS + SEEDS) % SEEDS
  const config = samplerOf(payload, facts)
  const { repeatPenaltyMaxTokens: last } = config
  return {
    n: numberAt(payload, 'n', { min: 1, max: MAX_ANSWERS }) ?? 1,
    maxTokens: numberAt(payload, 'max_tokens', { min: 1, max: Number.MAX_SAFE_INTEGER }) ?? Infinity,
    stop: stopOf(payload['stop']),
    logprobs: payload['logprobs'] === true,
    tops: numberAt(payload, 'top_logprobs', { min: 0, max: MAX_TOP }) ?? 0,
    seedOf,
    configOf: (index, prompt) => ({
      ...config, seed: seedOf(index),
      ...last === undefined ? {} : { repeatPenaltyTokens: Uint32Array.from(prompt.slice(-last)) }
    })
  }
}

function samplerOf (payload: Fields, { defaults, contextLength, vocabularySize }: Facts): SamplerConfig {
  const value = (name: Named): number => {
    const { min, max, default: usual } = SAMPLING[name]
    // Accept -1, which some clients send to turn top_k off.
    const least = name === 'top_k' ? -1 : min
    return numberAt(payload, name, { min: least, max, whole: 'whole' in SAMPLING[name] }) ??
      numberOf(defaults[name]) ?? usual
  }
  const [temperature, topK, topP, minP] =
    [value('temperature'), value('top_k'), value('top_p'), value('min_p')]
  return {
    ...temperature === 0 ? {} : {
      temperature,
      ...topK > 0 ? { topK } : {}, ...topP < 1 ? { topP } : {}, ...minP > 0 ? { minP } : {}
    },
    ...penaltiesOf(value, contextLength),
    ...biasesOf(payload, vocabularySize)
  }
}

function penaltiesOf (value: (name: Named) => number, contextLength: number): SamplerConfig {
  const [repeat, frequency, presence] =
    [value('repetition_penalty'), value('frequency_penalty'), value('presence_penalty')]
  const last = value('repeat_last_n')
  if (last === 0 || (repeat === 1 && frequency === 0 && presence === 0)) return {}
  return {
    repeatPenalty: repeat, repeatPenaltyFrequencyPenalty: frequency, repeatPenaltyPresencePenalty: presence,
    repeatPenaltyMaxTokens: last < 0 ? contextLength : Math.min(last, contextLength)
  }
}

function biasesOf (payload: Fields, vocabularySize: number): SamplerConfig {
  const pairs = biasOf(payload).filter(([id]) => id < vocabularySize)
  return pairs.length === 0 ? {} : {
    tokenBiasKeys: Uint32Array.from(pairs, ([id]) => id),
    tokenBiasValues: Float32Array.from(pairs, ([, value]) => value)
  }
}

function stopOf (stop: unknown): string[] {
  const list: unknown[] = stop == null ? [] : Array.isArray(stop) ? stop : [stop]
  if (list.every((text) => typeof text === 'string' && text !== '')) return list as string[]
  throw invalid('stop must be a non-empty string or a list of them', 'stop')
}
