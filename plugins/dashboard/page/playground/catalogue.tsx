import { useEffect, useState } from 'preact/hooks'
import { instances } from '../known.js'
import { origin } from '../link.js'
import { linkTo } from '../route.js'
import { useAsk } from '../ui/loading.js'
import { Empty, Select, Trouble } from '../ui/parts.js'
import type { ComponentChildren } from 'preact'
import type { Entry } from '../models/data.js'

export type Model = Entry

interface ModelsProps {
  task: 'chat' | 'tts' | 'stt', asked: string | null
  none: string
  children: (models: Model[], id: string, choose: (id: string) => void) => ComponentChildren
}

/** Loads a task's models and passes them to `children`, ready ones first, with one of them selected. */
export function WithModels ({ task, asked, none, children }: ModelsProps) {
  const running = instances.value.map(({ modelId, ready }) => `${modelId} ${ready}`).join()
  const { value, error } = useAsk('GET /v1/models', [origin.value, running])
  const [picked, setPicked] = useState<string | null>(null)
  useEffect(() => { setPicked(null) }, [asked])
  if (error !== null && value === null) return <Trouble error={error} />
  if (value === null) return <p class="waiting" role="status">Asking for the models…</p>
  const models = (value.data as Model[]).filter(({ resolved_capabilities: can }) => can[task])
    .sort((a, b) => a.ready !== b.ready ? (a.ready ? -1 : 1) : a.id < b.id ? -1 : 1)
  if (models[0] === undefined) return <Empty title={none}><a href={linkTo('models')}>Find one</a></Empty>
  return <>{children(models, picked ?? asked ?? models[0].id, setPicked)}</>
}

interface ModelChoiceProps {
  models: Model[], value: string, onChoose: (id: string) => void, label?: string
}

export function ModelChoice ({ models, value, onChoose, label = 'Model' }: ModelChoiceProps) {
  const chosen = models.find((one) => one.id === value)
  const options = models.map(({ id, ready }) => [id, ready ? id : `${id} (not ready)`] as const)
  return (
    <div class="pick">
      <Select
        label={label} value={value} onText={onChoose}
        options={value === '' ? [['', 'Choose a model'], ...options] : options}
      />
      {chosen?.ready === false && (
        <p class="hint">
          It is not ready{chosen.remedy === null ? '.' : `: ${chosen.remedy}`}
          {' '}<a href={linkTo('models', chosen.id)}>Its page</a>
        </p>
      )}
    </div>
  )
}
