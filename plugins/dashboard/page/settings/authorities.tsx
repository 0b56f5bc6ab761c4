import { call } from '../link.js'
import { Select, Tick } from '../ui/parts.js'
import { toggled } from '../ui/text.js'

interface OpenApi { paths: Record<string, Record<string, { 'x-authority'?: string | null }>> }

/** Every authority that a route on this node requires, including routes from third-party plugins. */
export async function authorities (signal: AbortSignal): Promise<string[]> {
  const { paths } = await (await call('/openapi.json', { signal })).json() as OpenApi
  const routes = Object.values(paths).flatMap((methods) => Object.values(methods))
  const all = routes.map((one) => one['x-authority'])
  return [...new Set(all.filter((one) => typeof one === 'string'))].sort()
}

interface ChoiceProps {
  legend: string, all: readonly string[], chosen: readonly string[]
  onChange: (chosen: string[]) => void
}

export function AuthorityChoice ({ legend, all, chosen, onChange }: ChoiceProps) {
  return (
    <fieldset class="choices">
      <legend>{legend}</legend>
      {all.map((one) => (
        <Tick
          key={one} checked={chosen.includes(one)} onChange={(on) => { onChange(toggled(chosen, one, on)) }}
        >
          {one}
        </Tick>
      ))}
    </fieldset>
  )
}

const DAY_MS = 86_400_000

/** Expiry of a credential as ISO-8601; null for one without an expiry. */
export const endAfter = (days: string): string | null =>
  days === '' ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString()

interface HowLongProps { days: string, onDays: (days: string) => void, last: readonly [string, string] }

export function HowLong ({ days, onDays, last }: HowLongProps) {
  const options = [['1', 'a day'], ['7', 'a week'], ['90', '90 days'], last] as const
  return <Select label="How long" options={options} value={days} onText={onDays} />
}
