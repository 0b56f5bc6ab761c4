import { useState } from 'preact/hooks'
import { Button, Field } from '../ui/parts.js'
import { readTools } from './request.js'
import { fields, readFigure, withFigure, type Sampling, type SamplingName } from './sampling.js'
import type { Settings } from './conversation.js'

interface SettingsProps {
  settings: Settings
  onChange: (settings: Settings) => void
  /** The selected models without tool support. */
  withoutTools: string[]
}

export function SettingsFields ({ settings, onChange, withoutTools }: SettingsProps) {
  return (
    <div class="form settings-fields">
      <Field
        label="System message" rows={2} value={settings.system}
        onText={(system) => { onChange({ ...settings, system }) }}
      />
      <SamplingFields
        sampling={settings.sampling} onChange={(sampling) => { onChange({ ...settings, sampling }) }}
      />
      <ToolsField settings={settings} onChange={onChange} withoutTools={withoutTools} />
    </div>
  )
}

interface SamplingProps { sampling: Sampling, onChange: (sampling: Sampling) => void }

export function SamplingFields ({ sampling, onChange }: SamplingProps) {
  return (
    <fieldset class="figures">
      <legend>Sampling: what is left empty is the model's own</legend>
      {fields.map(({ name, title, hint }) => (
        <Figure
          key={name} name={name} title={title} hint={hint} value={sampling[name]}
          onChange={(value) => { onChange(withFigure(sampling, name, value)) }}
        />
      ))}
    </fieldset>
  )
}

interface FigureProps {
  name: SamplingName, title: string, hint: string, value: number | undefined
  onChange: (value: number | undefined) => void
}

function Figure ({ name, title, hint, value, onChange }: FigureProps) {
  const [text, setText] = useState(value === undefined ? '' : String(value))
  const read = readFigure(name, text)
  return (
    <div class="figure">
      <Field
        label={title} inputMode="decimal" value={text} hint={hint}
        problem={typeof read === 'string' ? read : null}
        onText={(typed) => {
          setText(typed)
          const next = readFigure(name, typed)
          if (typeof next !== 'string') onChange(next)
        }}
      />
    </div>
  )
}

const EXAMPLE = [{
  type: 'function',
  function: {
    name: 'weather', description: 'The weather at a place now.',
    parameters: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] }
  }
}]
const written = (value: unknown): string => JSON.stringify(value, null, 2)

function ToolsField ({ settings, onChange, withoutTools }: SettingsProps) {
  const [text, setText] = useState(settings.tools.length === 0 ? '' : written(settings.tools))
  const read = readTools(text)
  const take = (value: string): void => {
    setText(value)
    const tools = readTools(value)
    if (typeof tools !== 'string') onChange({ ...settings, tools })
  }
  return (
    <>
      <Field
        label="Tools" class="mono" rows={4} spellcheck={false} value={text} onText={take}
        placeholder="A list of functions as JSON" problem={typeof read === 'string' ? read : null}
        hint={withoutTools.length > 0
          ? `${withoutTools.join(', ')} does not call tools.`
          : 'You answer the calls: the model gets what you write.'}
      />
      {text === '' && (
        <div class="inline">
          <Button kind="quiet" onClick={() => { take(written(EXAMPLE)) }}>Put in an example</Button>
        </div>
      )}
    </>
  )
}
