// A JSON Schema as a form. The form library is large, so it loads on demand. Its components are imported one
// by one, because its main file imports the default validator too.
import Form from '@rjsf/core/lib/components/Form.js'
import SchemaField from '@rjsf/core/lib/components/fields/SchemaField.js'
import { toErrorSchema } from '@rjsf/utils'
import { useState } from 'preact/hooks'
import { Field } from '../ui/parts.js'
import { fits, isOpen, problemsOf } from './schema.js'
import type { FieldProps, IconButtonProps, RJSFValidationError, ValidatorType } from '@rjsf/utils'
import type { Schema } from './schema.js'

/** The library's default validator generates code at run time, which the page's policy forbids. */
const validator: ValidatorType = {
  validateFormData (data, schema) {
    const errors: RJSFValidationError[] = problemsOf(schema, data).map(({ path, message }) => {
      const property = path.map((part) => `.${part}`).join('')
      return { name: 'schema', message, property, stack: `${path.join('.')} ${message}`.trim() }
    })
    return { errors, errorSchema: toErrorSchema(errors) }
  },
  isValid: (schema, data, whole) => fits(schema as Schema, data, whole as Schema),
  rawValidation: (schema, data) => ({ errors: problemsOf(schema, data) as never[] })
}

function JsonField ({ fieldPathId, formData, onChange, schema, name }: FieldProps) {
  const [text, setText] = useState(formData === undefined ? '' : JSON.stringify(formData, null, 2))
  const [problem, setProblem] = useState<string | null>(null)
  const read = (typed: string): void => {
    setText(typed)
    try {
      onChange(typed.trim() === '' ? undefined : JSON.parse(typed), fieldPathId.path)
      setProblem(null)
    } catch (error) {
      setProblem((error as Error).message)
    }
  }
  return (
    <div class="form-group">
      <Field
        label={`${schema.title ?? name} (JSON)`} rows={4} id={fieldPathId.$id} spellcheck={false} value={text}
        onText={read}
      />
      {schema.description !== undefined && <p class="hint">{schema.description}</p>}
      {problem !== null && <p class="problem" role="alert">{problem}</p>}
    </div>
  )
}

const button = (words: string) => function WordButton ({ onClick, disabled, id }: IconButtonProps) {
  return (
    <button type="button" class="button" id={id} disabled={disabled} onClick={onClick as never}>
      {words}
    </button>
  )
}

const TEMPLATES = {
  ButtonTemplates: {
    AddButton: button('Add'), RemoveButton: button('Remove'), MoveUpButton: button('Up'),
    MoveDownButton: button('Down'), CopyButton: button('Double'), ClearButton: button('Clear')
  }
}
const FIELDS = {
  SchemaField: (props: FieldProps) =>
    isOpen(props.schema) ? <JsonField {...props} /> : <SchemaField {...props} />
}

interface SchemaFormProps {
  /** Prefix of the field ids, unique on the page. */
  id: string, schema: Schema, value: unknown, onChange: (value: unknown) => void
}

export function SchemaForm ({ id, schema, value, onChange }: SchemaFormProps) {
  const { required = [], properties = {} } = schema as { required?: string[], properties?: object }
  const first = required.filter((name) => Object.hasOwn(properties, name))
  return (
    <Form
      className="schema-form" tagName="div" schema={schema} idPrefix={id} formData={value as never}
      uiSchema={{
        'ui:submitButtonOptions': { norender: true }, 'ui:label': false, 'ui:order': [...first, '*']
      }}
      validator={validator} fields={FIELDS as never} templates={TEMPLATES as never} showErrorList={false}
      liveValidate={false} noHtml5Validate
      experimental_defaultFormStateBehavior={{
        arrayMinItems: { populate: 'requiredOnly' }, emptyObjectFields: 'skipEmptyDefaults'
      }}
      onChange={({ formData }) => { onChange(formData) }}
    />
  )
}
