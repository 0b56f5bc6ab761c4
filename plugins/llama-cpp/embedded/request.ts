/** Reads an answer's parameters; the model's defaults, then llama.cpp's, replace missing ones. */
import { randomInt } from 'node:crypto'
import { numberOf, type Fields } from '../../runners/language/json.js'
import { SAMPLING, type Parameter } from '../../runners/language/sampling.js'
import type { SamplerConfig } from './binding.js'
import { biasOf, numberAt } from '../server/request.js'
import { needsServer } from './refusals.js'
import { invalid } from '../../runners/language/refusals.js'

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
export interface Parameters {
  n: number
  maxTokens: number
  stop: string[]
  logprobs: boolean
  tops: number
  seedOf: (index: number) => number
  /** The sampling parameters of answer `index`. Penalties also apply to the prompt's tokens. */
  configOf: (index: number, prompt: readonly number[]) => SamplerConfig
}

interface Facts { defaults: Fields, contextLength: number, vocabularySize: number }

/** @throws EngineError invalid_request */
export function readParameters (payload: Fields, facts: Facts): Parameters {
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
