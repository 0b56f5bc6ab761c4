import { useState } from 'preact/hooks'
import { Field } from './parts.js'

type JsonProps = Omit<Parameters<typeof Field>[0], 'value' | 'onText'> & {
  value: unknown
  /** Called with each valid value; undefined for an empty input. */
  onValue: (value: unknown) => void
}

/** A multi-line input of JSON, which shows why a text is none. */
export function JsonField ({ value, onValue, ...field }: JsonProps) {
  const [text, setText] = useState(value === undefined ? '' : JSON.stringify(value, null, 2))
  const [problem, setProblem] = useState<string | null>(null)
  const read = (typed: string): void => {
    setText(typed)
    try {
      onValue(typed.trim() === '' ? undefined : JSON.parse(typed))
      setProblem(null)
    } catch (error) { setProblem((error as Error).message) }
  }
  return <Field class="mono" spellcheck={false} {...field} value={text} problem={problem} onText={read} />
}
