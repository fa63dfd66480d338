//! Document lists and facet counts.

use std::collections::BTreeMap;
use std::fmt;

use axum::extract::State;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use stemma_archive::{DocumentList, FacetList, ListRequest};
use stemma_catalog::document_order::DocumentOrder;
use stemma_catalog::property::Property;
use stemma_gateway::AppState;
use stemma_gateway::extract::{HandlerResult, QueryParams, json, page_limit};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{ObjectBuilder, Required, Type};
use utoipa::{IntoParams, PartialSchema};

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DocumentsQuery {
    /// defaults to the server's first collection
    collection: Option<String>,
    /// items per page, defaults to 50
    #[param(value_type = Option<u32>, minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// `next_cursor` of the previous page
    cursor: Option<String>,
    #[param(ignore)]
    sort: Option<String>,
    #[param(ignore)]
    #[serde(flatten)]
    list: ListRequest,
    #[param(ignore)]
    #[serde(flatten)]
    facets: FacetFilters,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct FacetsQuery {
    #[param(ignore)]
    #[serde(default)]
    fields: String,
    collection: Option<String>,
    /// values per property, defaults to 50
    #[param(value_type = Option<u32>, minimum = 1, maximum = 500)]
    limit: Option<usize>,
    #[param(ignore)]
    #[serde(flatten)]
    list: ListRequest,
    #[param(ignore)]
    #[serde(flatten)]
    facets: FacetFilters,
}

// The parameter `sort`, as it is described.
struct SortParam;

impl IntoParams for SortParam {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let names: Vec<&str> = Property::orders().map(Property::name).collect();
        let description = format!(
            "{} (default: path); after `-` it descends. Documents without a value come last",
            names.join(", ")
        );
        let pattern = format!("^-?({})$", names.join("|"));
        vec![names_parameter(
            "sort",
            description,
            pattern,
            Required::False,
        )]
    }
}

// The parameter `fields`, as it is described.
struct FieldsParam;

impl IntoParams for FieldsParam {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let names: Vec<&str> = Property::facets().map(Property::facet_name).collect();
        let description = format!("properties, with commas between: {}", names.join(", "));
        let name = format!("({})", names.join("|"));
        let pattern = format!("^{name}(,{name})*$");
        vec![names_parameter(
            "fields",
            description,
            pattern,
            Required::True,
        )]
    }
}

fn names_parameter(
    name: &str,
    description: String,
    pattern: String,
    required: Required,
) -> Parameter {
    let schema = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(pattern));
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(required)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

// Parameters named like a facet. They are the rest of a query, so any other name is an unknown parameter.
pub(crate) struct FacetFilters(BTreeMap<Property, String>);

impl<'de> Deserialize<'de> for FacetFilters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FacetFiltersVisitor)
    }
}

struct FacetFiltersVisitor;

impl<'de> Visitor<'de> for FacetFiltersVisitor {
    type Value = FacetFilters;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("parameters named like a facet")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FacetFilters, A::Error> {
        let mut filters = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, String>()? {
            let facet = Property::facets().find(|facet| facet.facet_name() == name);
            let facet =
                facet.ok_or_else(|| A::Error::custom(format!("unknown parameter `{name}`")))?;
            if filters.insert(facet, value).is_some() {
                return Err(A::Error::duplicate_field(facet.facet_name()));
            }
        }
        Ok(FacetFilters(filters))
    }
}

impl IntoParams for FacetFilters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        Property::facets()
            .map(|facet| {
                ParameterBuilder::new()
                    .name(facet.facet_name())
                    .parameter_in(ParameterIn::Query)
                    .required(Required::False)
                    .schema(Some(String::schema()))
                    .build()
            })
            .collect()
    }
}

/// List documents
///
/// Ordered by `sort`, then path. Parameters named like a property filter the list.
#[utoipa::path(get, path = "/v1/documents", tag = "documents", params(DocumentsQuery, SortParam, ListRequest, FacetFilters),
    responses((status = 200, body = DocumentList)))]
pub(crate) async fn documents(
    State(state): State<AppState>,
    scope: CollectionScope,
    QueryParams(query): QueryParams<DocumentsQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let limit = page_limit(query.limit)?;
    let order = query.sort.map_or(Ok(DocumentOrder::default()), |sort| {
        let order = sort.parse::<DocumentOrder>();
        order.map_err(|error| Problem::parameter(400, "sort", error.to_string()))
    });
    let request = ListRequest {
        facets: query.facets.0,
        order: order?,
        ..query.list
    };
    json(archive.list_selected(
        &archive.select(&request)?,
        &request,
        limit,
        query.cursor.as_deref(),
    )?)
    .await
}

/// Count documents by their properties
///
/// Accepts the filters of the document list.
#[utoipa::path(get, path = "/v1/facets", tag = "documents", params(FieldsParam, FacetsQuery, ListRequest, FacetFilters),
    responses((status = 200, body = FacetList)))]
pub(crate) async fn facets(
    State(state): State<AppState>,
    scope: CollectionScope,
    QueryParams(query): QueryParams<FacetsQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let limit = page_limit(query.limit)?;
    let fields: Option<Vec<Property>> = query
        .fields
        .split(',')
        .map(|field| Property::from_facet_name(field.trim()))
        .collect();
    let Some(mut fields) = fields else {
        let all: Vec<&str> = Property::facets().map(Property::facet_name).collect();
        let all = all.join(", ");
        return Err(
            Problem::parameter(400, "fields", format!("fields must be some of {all}")).into(),
        );
    };
    fields.sort_unstable();
    fields.dedup();
    let request = ListRequest {
        facets: query.facets.0,
        ..query.list
    };
    json(archive.count_selected(&archive.select(&request)?, &fields, limit)?).await
}
