export type Sampling = Partial<Record<SamplingName, number>>
export type SamplingName = typeof fields[number]['name']

/** The sampling parameters with the API's bounds, and a description of their effect. */
export const fields = [
  { name: 'temperature', title: 'Temperature', hint: '0 always takes the likeliest', min: 0, max: 100 },
  { name: 'max_tokens', title: 'Most tokens', hint: 'ends the answer there', min: 1, max: 1e6, whole: true },
  { name: 'top_p', title: 'Top p', hint: 'share of likelihood to choose from', min: 0, max: 1 },
  { name: 'top_k', title: 'Top k', hint: 'tokens to choose from', min: -1, max: 2 ** 31, whole: true },
  { name: 'min_p', title: 'Min p', hint: 'least likelihood, beside the likeliest', min: 0, max: 1 },
  { name: 'frequency_penalty', title: 'Frequency penalty', hint: 'each time it was said', min: -2, max: 2 },
  { name: 'presence_penalty', title: 'Presence penalty', hint: 'once it was said', min: -2, max: 2 },
  { name: 'repetition_penalty', title: 'Repetition penalty', hint: '1 is none', min: 0.01, max: 100 },
  {
    name: 'seed', title: 'Seed', hint: 'same seed, same answer', min: Number.MIN_SAFE_INTEGER,
    max: Number.MAX_SAFE_INTEGER, whole: true
  }
] as const

/** Parses a parameter: undefined for an empty string, an error message for an invalid one. */
export function readFigure (name: SamplingName, text: string): number | undefined | string {
  if (text.trim() === '') return undefined
  const { min, max, title, ...field } = fields.find((one) => one.name === name)!
  const value = Number(text)
  if (!Number.isFinite(value)) return `${title} is a number.`
  if ('whole' in field && !Number.isInteger(value)) return `${title} is a whole number.`
  return value < min || value > max ? `${title} is from ${min} to ${max}.` : value
}

/** Sets one sampling parameter; undefined removes it, so the model's default applies. */
export function withFigure (sampling: Sampling, name: SamplingName, value: number | undefined): Sampling {
  return Object.fromEntries(
    Object.entries({ ...sampling, [name]: value }).filter(([, one]) => one !== undefined))
}
