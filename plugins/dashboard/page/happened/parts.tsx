import { nodes } from './names.js'
import { Badge, Button } from '../ui/parts.js'
import type { Following } from './follow.js'

/** Whether a stream is followed. */
export function Live ({ following, held = 0 }: { following: Following, held?: number }) {
  const { status } = following
  if (status === 'refused') return null
  const words = { connecting: 'connecting', live: 'live', lost: 'trying again' }[status]
  return (
    <span role="status">
      <Badge level={status === 'live' ? 'ok' : 'warn'}>{held > 0 ? `held, ${held} wait` : words}</Badge>
    </span>
  )
}

/** The words of a node that refused, with what to do. */
export function Refused ({ following, what }: { following: Following, what: string }) {
  const { status, error, again } = following
  if (status !== 'refused' || error === null) return null
  return (
    <div class="trouble" role="alert">
      <p>{what} cannot be shown. {error.message}</p>
      <Button kind="quiet" onClick={again}>Try again</Button>
    </div>
  )
}

interface SelectProps {
  id: string, label: string, value: string, all: string
  options: readonly (readonly [value: string, words: string])[]
  onChange: (value: string) => void
}

/** One of several, or all. */
export function Filter ({ id, label, value, all, options, onChange }: SelectProps) {
  return (
    <div class="filter">
      <label for={id}>{label}</label>
      <select
        id={id} class="field" value={value}
        onChange={({ currentTarget }) => { onChange(currentTarget.value) }}
      >
        <option value="">{all}</option>
        {value !== '' && !options.some(([one]) => one === value) && <option value={value}>{value}</option>}
        {options.map(([one, words]) => <option key={one} value={one}>{words}</option>)}
      </select>
    </div>
  )
}

interface SearchProps { id: string, label: string, value: string, onChange: (text: string) => void }

export function Search ({ id, label, value, onChange }: SearchProps) {
  return (
    <div class="filter">
      <label for={id}>{label}</label>
      <input
        id={id} type="search" spellcheck={false} autocomplete="off" value={value}
        onInput={({ currentTarget }) => { onChange(currentTarget.value) }}
      />
    </div>
  )
}

export function NodeFilter ({ id, value, onChange }: Pick<SelectProps, 'id' | 'value' | 'onChange'>) {
  const options = nodes.value.map((node) => [node.id, node.name] as const)
  return <Filter id={id} label="Node" all="all nodes" value={value} options={options} onChange={onChange} />
}

export function save (contents: Blob, name: string): void {
  const url = URL.createObjectURL(contents)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => { URL.revokeObjectURL(url) }, 10_000)
}
