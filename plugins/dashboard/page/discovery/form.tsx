// A JSON Schema as a form. The form library is large, so it loads on demand. Its components are imported one
// by one, because its main file imports the default validator too.
import Form from '@rjsf/core/lib/components/Form.js'
import SchemaField from '@rjsf/core/lib/components/fields/SchemaField.js'
import { toErrorSchema } from '@rjsf/utils'
import { JsonField } from '../ui/json.js'
import { fits, isOpen, problemsOf, type Schema } from './schema.js'
import type { FieldProps, IconButtonProps, RJSFValidationError, ValidatorType } from '@rjsf/utils'

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

const OpenField = ({ fieldPathId, formData, onChange, schema, name }: FieldProps) => (
  <div class="form-group">
    <JsonField
      label={`${schema.title ?? name} (JSON)`} rows={4} id={fieldPathId.$id} value={formData}
      onValue={(value) => { onChange(value, fieldPathId.path) }}
    />
    {schema.description !== undefined && <p class="hint">{schema.description}</p>}
  </div>
)

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
    isOpen(props.schema) ? <OpenField {...props} /> : <SchemaField {...props} />
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
