import { ask } from '../link.js'

interface OpenApi { paths: Record<string, Record<string, { 'x-authority'?: string | null }>> }

/** Every authority that a route of this node asks for, those of third-party plugins too. */
export async function authorities (signal: AbortSignal): Promise<string[]> {
  const { paths } = await ask<OpenApi>('/openapi.json', { signal })
  const routes = Object.values(paths).flatMap((methods) => Object.values(methods))
  const all = routes.map((one) => one['x-authority'])
  return [...new Set(all.filter((one) => typeof one === 'string'))].sort()
}

interface ChoiceProps {
  legend: string
  all: readonly string[]
  chosen: readonly string[]
  onChange: (one: string, on: boolean) => void
}

export function AuthorityChoice ({ legend, all, chosen, onChange }: ChoiceProps) {
  return (
    <fieldset class="choices">
      <legend>{legend}</legend>
      {all.map((one) => (
        <label key={one}>
          <input
            type="checkbox" checked={chosen.includes(one)}
            onChange={({ currentTarget: { checked } }) => { onChange(one, checked) }}
          />
          {one}
        </label>
      ))}
    </fieldset>
  )
}
