/** Checks the payload of a task. */
import { EngineError, type ModelCard } from '../../../kernel/api/engine.js'
import { child, textOf, type Fields } from '../../runners/language/json.js'
import { languageName } from '../language.js'
import type { Vocabulary } from './tokens.js'

export type SttRequest = ReturnType<typeof readRequest>

/** @throws EngineError invalid_payload naming the field, or language_unknown */
export function readRequest (payload: Fields, { languages }: Vocabulary, { modelId }: ModelCard) {
  const numberOf = (fields: Fields, name: string, least: number, most: number, usual: number): number => {
    const value = fields[name] ?? usual
    if (typeof value === 'number' && value >= least && value <= most) return value
    throw new EngineError('invalid_payload', `${name} must be a number from ${least} to ${most}`)
  }
  const oneOf = <const T extends string>(name: string, [usual, ...others]: readonly [T, ...T[]]): T => {
    const found = [usual, ...others].find((value) => value === (payload[name] ?? usual))
    if (found !== undefined) return found
    throw new EngineError('invalid_payload', `${name} must be one of ${[usual, ...others].join(', ')}`)
  }
  const asked = payload['language'] === undefined ? undefined : textOf(payload['language'])
  const known = languages.size > 0 ? [...languages.keys()] : ['en']
  const language = known.find((one) => one === asked) ?? known.find((one) => languageName(one) === asked)
  if (asked !== undefined && language === undefined) {
    throw new EngineError('language_unknown',
      `${modelId} does not know the language "${asked.slice(0, 40)}": it knows ${known.join(', ')}`)
  }
  const task = oneOf('task', ['transcribe', 'translate'])
  if (task === 'translate' && languages.size === 0) {
    throw new EngineError('invalid_payload', `task must be transcribe, since ${modelId} knows English alone`)
  }
  const turn = child(payload, 'turn')
  return {
    format: oneOf('format', ['file', 'pcm']),
    sampleRate: numberOf(payload, 'sample_rate', 8000, 48_000, 16_000), task, language,
    prompt: textOf(payload['prompt']), temperature: numberOf(payload, 'temperature', 0, 1, 0),
    words: payload['words'] === true, logprobs: payload['logprobs'] === true,
    live: payload['live'] === true, partials: payload['partials'] !== false,
    threshold: numberOf(turn, 'threshold', 0, 1, 0.5),
    prefixSeconds: numberOf(turn, 'prefix_padding_ms', 0, 5000, 300) / 1000,
    silenceSeconds: numberOf(turn, 'silence_duration_ms', 0, 10_000, 500) / 1000
  }
}
