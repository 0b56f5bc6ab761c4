import { nodesNow } from '../known.js'
import { Field, Select } from '../ui/parts.js'

interface FilterProps {
  label: string, value: string, all: string, options: readonly (readonly [value: string, words: string])[]
  onChange: (value: string) => void
}

export const Filter = ({ label, value, all, options, onChange }: FilterProps) => (
  <div class="filter">
    <Select label={label} options={[['', all], ...options]} value={value} onText={onChange} />
  </div>
)

export const Search = ({ label, value, onChange }: Pick<FilterProps, 'label' | 'value' | 'onChange'>) => (
  <div class="filter">
    <Field label={label} type="search" spellcheck={false} value={value} onText={onChange} />
  </div>
)

type NodeFilterProps = Pick<FilterProps, 'value' | 'onChange'> & { all?: string }

export function NodeFilter ({ all = 'all nodes', ...props }: NodeFilterProps) {
  const options = nodesNow.value.map(({ id, name }) => [id, name] as const)
    .sort(([, a], [, b]) => a < b ? -1 : 1)
  return <Filter label="Node" all={all} options={options} {...props} />
}

export function save (contents: Blob, name: string): void {
  const url = URL.createObjectURL(contents)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => { URL.revokeObjectURL(url) }, 10_000)
}
