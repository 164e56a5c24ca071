//! Checks of JSON requests against the gRPC contract's descriptors.

use petstore_proto::FILE_DESCRIPTOR_SET;
use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorSet, MethodDescriptorProto,
    field_descriptor_proto::Type,
};
use serde_json::Value;

/// Fails unless `method` (`package.Service/Method`) exists and takes this JSON.
pub(crate) fn assert_request(method: &str, json: &Value) {
    let contract = Contract::load();
    assert_message(&contract, contract.method(method).input_type(), json);
}

fn assert_message(contract: &Contract, message: &str, json: &Value) {
    let descriptor = contract.message(message);
    for (name, value) in json.as_object().unwrap_or_else(|| panic!("{message} is not an object: {json}")) {
        let field = descriptor
            .field
            .iter()
            .find(|field| field.json_name() == name)
            .unwrap_or_else(|| panic!("{message} has no field {name}"));
        match field.r#type() {
            Type::Message => assert_message(contract, field.type_name(), value),
            Type::Enum => {
                let names = contract.enumeration(field.type_name());
                assert!(names.value.iter().any(|named| value == named.name()), "{name} cannot be {value}");
            }
            // 64-bit integers are strings in the JSON form of Protocol Buffers.
            Type::Int64 => {
                assert!(
                    value.as_str().is_some_and(|digits| digits.parse::<i64>().is_ok()),
                    "{name}: {value}"
                );
            }
            Type::Int32 => assert!(value.is_i64(), "{name}: {value}"),
            Type::String => assert!(value.is_string(), "{name}: {value}"),
            other => panic!("{name} has type {other:?}: say here what its JSON looks like"),
        }
    }
}

/// Contract with all its files. Names are looked up as descriptors write them: `.package.Name`.
#[derive(Debug)]
struct Contract(FileDescriptorSet);

impl Contract {
    fn load() -> Self {
        Self(FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap())
    }

    fn method(&self, path: &str) -> &MethodDescriptorProto {
        let mut services =
            self.0.file.iter().flat_map(|file| file.service.iter().map(move |named| (file.package(), named)));
        let (service, method) = path.split_once('/').unwrap();
        let found = services.find(|(package, named)| format!("{package}.{}", named.name()) == service);
        let Some((_, service)) = found else { panic!("there is no service {service}") };
        let found = service.method.iter().find(|named| named.name() == method);
        found.unwrap_or_else(|| panic!("there is no method {path}"))
    }

    fn message(&self, name: &str) -> &DescriptorProto {
        let mut messages = self
            .0
            .file
            .iter()
            .flat_map(|file| file.message_type.iter().map(move |named| (file.package(), named)));
        let found = messages.find(|(package, named)| format!(".{package}.{}", named.name()) == name);
        let Some((_, message)) = found else { panic!("there is no message {name}") };
        message
    }

    fn enumeration(&self, name: &str) -> &EnumDescriptorProto {
        let mut enums = self
            .0
            .file
            .iter()
            .flat_map(|file| file.enum_type.iter().map(move |named| (file.package(), named)));
        let found = enums.find(|(package, named)| format!(".{package}.{}", named.name()) == name);
        let Some((_, enumeration)) = found else { panic!("there is no enum {name}") };
        enumeration
    }
}
