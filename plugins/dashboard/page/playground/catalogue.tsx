import { useId } from 'preact/hooks'
import { ask, origin, state } from '../link.js'
import { linkTo } from '../route.js'
import { instancesOf } from '../state.js'
import { useLoaded } from '../ui/parts.js'

export type Task = 'chat' | 'completions' | 'embeddings' | 'tts'

export interface Model {
  id: string, name: string, description: string, context_length: number
  installed: boolean, ready: boolean, virtual: boolean
  resolved_capabilities: Record<Task | 'tools' | 'vision', boolean>
  audio: { voices: { id: string, name: string }[], default_voice: string | null } | null
  remedy: string | null
}

/** The models of the cluster that do this, those that are ready first; null until they are known. */
export function useModels (task: Task): { models: Model[] | null, error: Error | null } {
  const running = instancesOf(state.value).map(({ modelId, ready }) => `${modelId} ${ready}`).join()
  const { value, error } = useLoaded(
    (signal) => ask<{ data: Model[] }>('/v1/models', { signal }), [origin.value, running])
  const models = value?.data.filter(({ resolved_capabilities: can }) => can[task])
    .sort((a, b) => a.ready !== b.ready ? (a.ready ? -1 : 1) : a.id < b.id ? -1 : 1) ?? null
  return { models, error }
}

interface ModelChoiceProps {
  models: Model[], value: string, onChoose: (id: string) => void, label?: string
}

export function ModelChoice ({ models, value, onChoose, label = 'Model' }: ModelChoiceProps) {
  const id = useId()
  const chosen = models.find((one) => one.id === value)
  return (
    <div class="choice">
      <label for={id}>{label}</label>
      <select
        id={id} class="field" value={value}
        onChange={({ currentTarget }) => { onChoose(currentTarget.value) }}
      >
        {chosen === undefined && <option value={value}>{value === '' ? 'Choose a model' : value}</option>}
        {models.map((one) => (
          <option key={one.id} value={one.id}>{one.ready ? one.id : `${one.id} (not ready)`}</option>
        ))}
      </select>
      {chosen?.ready === false && (
        <p class="hint">
          It is not ready{chosen.remedy === null ? '.' : `: ${chosen.remedy}`}
          {' '}<a href={linkTo('models', chosen.id)}>Its page</a>
        </p>
      )}
    </div>
  )
}
